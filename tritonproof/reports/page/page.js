"use strict";
// Filter and order of the summary.
(() => {
  const table = document.getElementById("summary");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const form = document.getElementById("controls");
  const fields = [...form.querySelectorAll("input, select")];
  let order = null;

  form.hidden = false;

  const isShown = (row) =>
    fields.every(({ name, value }) =>
      name === "text"
        ? value.toLowerCase().split(/\s+/).every((word) => row.textContent.toLowerCase().includes(word))
        : !value || row.dataset[name] === value,
    );

  // Cells without a number come last, whichever way the others are ordered.
  const byNumber = (column, sign) => (one, other) => {
    const [a, b] = [one, other].map((row) => Number(row.cells[column].dataset.value ?? NaN));
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  };
  const byText = (column, sign) => (one, other) =>
    sign * one.cells[column].textContent.localeCompare(other.cells[column].textContent, "en", { numeric: true });
  const isNumber = (column) => rows.some((row) => row.cells[column].dataset.value !== undefined);

  const update = () => {
    for (const row of rows) {
      row.hidden = !isShown(row);
      document.getElementById(row.dataset.case).hidden = row.hidden;
    }
    const shown = rows.filter((row) => !row.hidden).length;
    document.getElementById("count").value = `${shown === rows.length ? "" : `${shown} of `}${rows.length} cases`;
    document.getElementById("nothing").hidden = shown > 0;
    headers.forEach((header, column) => {
      header.setAttribute("aria-sort", order?.column === column ? order.direction : "none");
    });
    const by = order && (isNumber(order.column) ? byNumber : byText);
    body.append(...(by ? [...rows].sort(by(order.column, order.direction === "descending" ? -1 : 1)) : rows));
  };

  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const directions = isNumber(column) ? ["descending", "ascending"] : ["ascending", "descending"];
      const next = order?.column === column ? directions.indexOf(order.direction) + 1 : 0;
      order = next < 2 ? { column, direction: directions[next] } : null;
      update();
    });
  });
  for (const kind of ["input", "change"]) form.addEventListener(kind, update);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { order = null; update(); }));

  // A link may lead to a case that the filter hides.
  window.addEventListener("hashchange", () => {
    const target = document.getElementById(location.hash.slice(1));
    if (!target?.closest("[hidden]")) return;
    form.reset();
    update();
    target.scrollIntoView();
  });

  // On paper nothing can be unfolded.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  update();
})();
