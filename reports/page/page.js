"use strict";
// Filter and order of the summary, kept in the address: #text=resnet&target=a100&sort=5-descending
(() => {
  const table = document.getElementById("summary");
  const body = table.tBodies[0];
  const rows = [...body.rows];
  const headers = [...table.tHead.rows[0].cells];
  const form = document.getElementById("controls");
  const fields = [...form.querySelectorAll("input, select")];
  const count = document.getElementById("count");
  const nothing = document.getElementById("nothing");
  let order = null;
  let remembered = "";

  form.hidden = false;

  const number = (text) => {
    const found = text.match(/-?\d[\d,]*\.?\d*(e[-+]?\d+)?/);
    return found ? Number(found[0].replaceAll(",", "")) : NaN;
  };

  const isShown = (row) =>
    fields.every(({ name, value }) =>
      name === "text"
        ? value.toLowerCase().split(/\s+/).every((word) => row.textContent.toLowerCase().includes(word))
        : !value || row.dataset[name] === value,
    );

  const filter = () => {
    for (const row of rows) {
      row.hidden = !isShown(row);
      document.getElementById(row.dataset.case).hidden = row.hidden;
    }
    const shown = rows.filter((row) => !row.hidden).length;
    count.value = shown === rows.length ? `${shown} cases` : `${shown} of ${rows.length} cases`;
    nothing.hidden = shown > 0;
  };

  const keyOf = (row, column) => row.cells[column].dataset.sort ?? row.cells[column].textContent.trim();

  // Cells without a number come last, whichever way the others are ordered.
  const byNumber = (column, sign) => (one, other) => {
    const [a, b] = [one, other].map((row) => number(keyOf(row, column)));
    if (Number.isNaN(a) || Number.isNaN(b)) return Number.isNaN(a) - Number.isNaN(b);
    return sign * (a - b);
  };
  const byText = (column, sign) => (one, other) =>
    sign * keyOf(one, column).localeCompare(keyOf(other, column), "en", { numeric: true });

  const sort = () => {
    headers.forEach((header, place) => {
      header.setAttribute("aria-sort", order?.column === place ? order.direction : "none");
    });
    const sorted = [...rows];
    if (order) {
      const compare = headers[order.column].dataset.kind === "number" ? byNumber : byText;
      sorted.sort(compare(order.column, order.direction === "descending" ? -1 : 1));
    }
    body.append(...sorted);
  };

  const state = () => {
    const found = new URLSearchParams();
    for (const { name, value } of fields) if (value) found.set(name, value);
    if (order) found.set("sort", `${order.column}-${order.direction}`);
    return found.toString();
  };

  // A field that loses the focus, as when a link is followed, tells its value again: the address is the link's by then.
  const remember = () => {
    if (state() === remembered) return;
    remembered = state();
    history.replaceState(null, "", remembered ? `#${remembered}` : location.pathname + location.search);
  };

  const restore = () => {
    const text = location.hash.slice(1);
    const target = text && document.getElementById(text);
    if (target) {
      if (target.closest("[hidden]")) {
        for (const field of fields) field.value = "";
        filter();
        remembered = state();
        target.scrollIntoView();
      }
      return;
    }
    const asked = new URLSearchParams(text);
    for (const field of fields) field.value = asked.get(field.name) ?? "";
    const [column, direction] = (asked.get("sort") ?? "").split("-");
    const isOrder = headers[column] && ["ascending", "descending"].includes(direction);
    order = isOrder ? { column: Number(column), direction } : null;
    filter();
    sort();
    remembered = state();
  };

  headers.forEach((header, place) => {
    header.querySelector("button").addEventListener("click", () => {
      const isAgain = order?.column === place;
      const first = header.dataset.kind === "number" ? "descending" : "ascending";
      const other = first === "ascending" ? "descending" : "ascending";
      order = isAgain && order.direction === other ? null : { column: place, direction: isAgain ? other : first };
      sort();
      remember();
    });
  });
  for (const kind of ["input", "change"]) form.addEventListener(kind, () => { filter(); remember(); });
  form.addEventListener("submit", (event) => event.preventDefault());
  form.addEventListener("reset", () => setTimeout(() => { order = null; filter(); sort(); remember(); }));
  window.addEventListener("hashchange", restore);

  // On paper nothing can be unfolded.
  let closed = [];
  window.addEventListener("beforeprint", () => {
    closed = [...document.querySelectorAll("details:not([open])")];
    for (const one of closed) one.open = true;
  });
  window.addEventListener("afterprint", () => { for (const one of closed) one.open = false; });

  filter();
  restore();
})();
