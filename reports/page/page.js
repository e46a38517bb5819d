"use strict";
// Filter and order of the summary, kept in the address: #text=resnet&target=a100&sort=5-descending
(() => {
  const table = document.getElementById("summary");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const form = document.getElementById("controls");
  const fields = [...form.querySelectorAll("input, select")];
  let order = null;
  let remembered = "";

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

  const state = () => {
    const found = new URLSearchParams();
    for (const { name, value } of fields) if (value) found.set(name, value);
    if (order) found.set("sort", `${order.column}-${order.direction}`);
    return found.toString();
  };

  const change = () => {
    update();
    // A field that loses the focus, as when a link is followed, tells its value again: the address is the link's by then.
    if (state() === remembered) return;
    remembered = state();
    history.replaceState(null, "", remembered ? `#${remembered}` : location.pathname + location.search);
  };

  const restore = () => {
    const text = location.hash.slice(1);
    const target = text && document.getElementById(text);
    if (target && !target.closest("[hidden]")) return;
    const asked = new URLSearchParams(target ? "" : text);
    for (const field of fields) field.value = asked.get(field.name) ?? "";
    const [column, direction] = (asked.get("sort") ?? "").split("-");
    const isOrder = headers[column] && ["ascending", "descending"].includes(direction);
    order = isOrder ? { column: Number(column), direction } : null;
    update();
    remembered = state();
    if (target) target.scrollIntoView();
  };

  headers.forEach((header, column) => {
    header.querySelector("button").addEventListener("click", () => {
      const directions = isNumber(column) ? ["descending", "ascending"] : ["ascending", "descending"];
      const next = order?.column === column ? directions.indexOf(order.direction) + 1 : 0;
      order = next < 2 ? { column, direction: directions[next] } : null;
      change();
    });
  });
  for (const kind of ["input", "change"]) form.addEventListener(kind, change);
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { order = null; change(); }));
  window.addEventListener("hashchange", restore);

  // On paper nothing can be unfolded.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  update();
  restore();
})();
