// Tables of many rows in pages.
import { exact, h, table, update } from "../dom.js";

const ROWS = 200;

// Buttons below a list that has more rows than a page; move: takes the number of rows before the new page
export function pager(at, size, total, move) {
  if (total <= size) return null;
  return h("div", { class: "pager" }, `${exact(at + 1)}–${exact(Math.min(at + size, total))} of ${exact(total)}`,
    h("button", { class: "button", type: "button", disabled: at === 0, onclick: () => move(Math.max(0, at - size)) }, "Previous"),
    h("button", { class: "button", type: "button", disabled: at + size >= total, onclick: () => move(at + size) }, "Next"));
}

// Gives a function that shows the rows as they are now, at the page where the reader is, and returns the element.
export function paged() {
  const box = h("div");
  let at = 0, columns, rows, options;
  function draw() {
    at = Math.min(at, Math.floor(Math.max(0, rows.length - 1) / ROWS) * ROWS);
    update(box, table(columns, rows.slice(at, at + ROWS), options), pager(at, ROWS, rows.length, (to) => { at = to; draw(); }));
  }
  return (...now) => { [columns, rows, options] = now; draw(); return box; };
}
