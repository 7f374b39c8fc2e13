// Tables of many rows in pages.
import { exact, h, table, update } from "../dom.js";

const ROWS = 200;

// Buttons below a list that has more rows than a page; move: takes the number of rows before the new page, and the button
export function pager(at, size, total, move) {
  if (total <= size) return null;
  return h("div", { class: "pager" }, `${exact(at + 1)}–${exact(Math.min(at + size, total))} of ${exact(total)}`,
    h("button", { class: "button", type: "button", disabled: at === 0, onclick: (event) => move(Math.max(0, at - size), event.currentTarget) }, "Previous"),
    h("button", { class: "button", type: "button", disabled: at + size >= total, onclick: (event) => move(at + size, event.currentTarget) }, "Next"));
}

// Gives a function that makes an element of the rows as they are now, at the page where the reader is. It is a new one each
// time: `update` compares it with the one that is shown, which stays.
export function paged() {
  let at = 0, columns, rows, options;
  function content() {
    at = Math.min(at, Math.floor(Math.max(0, rows.length - 1) / ROWS) * ROWS);
    return [table(columns, rows.slice(at, at + ROWS), options), pager(at, ROWS, rows.length, move)];
  }
  function move(to, button) { at = to; update(button.closest(".paged"), ...content()); }
  return (...now) => { [columns, rows, options] = now; return h("div", { class: "paged" }, content()); };
}
