// Elements made from text alone: nothing that a topic or a record holds ever becomes markup.
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === undefined || value === null || value === false) continue;
    if (name.startsWith("on")) hear(element, name.slice(2), value);
    else if (name === "class") element.className = value;
    else if (name === "width%") element.style.width = `${Math.max(0, Math.min(100, value))}%`;
    else if (name in element && typeof value !== "string") element[name] = value;
    else element.setAttribute(name, value);
  }
  add(element, children);
  return element;
}

export function add(element, children) {
  for (const child of children.flat(4)) {
    if (child === null || child === undefined || child === false) continue;
    element.append(child instanceof Node ? child : String(child));
  }
  return element;
}

// The handlers of an element are in `heard`, so that `update` can replace them.
function hear(element, type, handler) {
  element.heard = { ...element.heard, [type]: handler };
  element.addEventListener(type, (event) => element.heard[type](event));
}

// Replaces what an element holds. A link or button that has the keyboard's focus gets it again by what it is called.
export function fill(element, ...children) {
  const held = document.activeElement;
  const called = held !== element && element.contains(held) ? name(held) : null;
  element.replaceChildren();
  add(element, children);
  if (called) [...element.querySelectorAll("a, button")].find((one) => name(one) === called)?.focus({ preventScroll: true });
  return element;
}
const name = (element) => `${element.tagName} ${element.getAttribute("href") ?? element.textContent.replace(/ [↑↓]$/, "")}`;

// Changes what an element holds to what it shall hold now. Elements that stay keep the focus, scroll positions and marks.
export function update(element, ...children) {
  const held = document.activeElement;
  const called = held !== element && element.contains(held) ? name(held) : null;
  replaceChildren(element, add(element.cloneNode(false), children));
  if (called === null || document.activeElement === held) return;
  const same = held.isConnected ? held : [...element.querySelectorAll("a, button")].find((one) => name(one) === called);
  same?.focus({ preventScroll: true });
}

// Rows have a key: they are found where they were.
function replaceChildren(element, fresh) {
  const rows = new Map([...element.children].filter((one) => one.dataset.key).map((one) => [one.dataset.key, one]));
  let at = element.firstChild;
  for (const one of [...fresh.childNodes]) {
    const key = one.dataset?.key;
    const old = key ? rows.get(key) : at && !at.dataset?.key ? at : null;
    rows.delete(key);
    if (old && old === at) at = at.nextSibling;
    else element.insertBefore(old ?? one, at);
    if (old) become(old, one);
  }
  while (at) { const next = at.nextSibling; at.remove(); at = next; }
}

const events = (element) => Object.keys(element.heard ?? {}).join();
function become(old, fresh) {
  if (old.nodeName !== fresh.nodeName || events(old) !== events(fresh)) { old.replaceWith(fresh); return; }
  if (old.nodeType !== Node.ELEMENT_NODE) { if (old.data !== fresh.data) old.data = fresh.data; return; }
  old.heard = fresh.heard;
  for (const each of [...old.attributes]) if (!fresh.hasAttribute(each.name)) old.removeAttribute(each.name);
  // the content security policy refuses the attribute style, but not what it stands for
  if (old.style.cssText !== fresh.style.cssText) old.style.cssText = fresh.style.cssText;
  for (const each of fresh.attributes) if (each.name !== "style" && old.getAttribute(each.name) !== each.value) old.setAttribute(each.name, each.value);
  replaceChildren(old, fresh);
}

// Whether a reader has marked text in an element: it stays until he lets it go.
export function marked(element) {
  const selection = getSelection();
  return selection.type === "Range" && element.contains(selection.anchorNode);
}

const UNITS = ["B", "kB", "MB", "GB", "TB", "PB"];
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let unit = 0, number = value;
  while (number >= 999.5 && unit < UNITS.length - 1) { number /= 1000; unit += 1; }
  return `${unit && number < 99.95 ? number.toFixed(1) : Math.round(number)} ${UNITS[unit]}`;
}
export const rate = (value) => `${bytes(value)}/s`;
export function count(value) {
  if (value === null || value === undefined) return "–";
  if (Math.abs(value) >= 999.95e6) return `${(value / 1e9).toFixed(1)} G`;
  if (Math.abs(value) >= 999.95e3) return `${(value / 1e6).toFixed(1)} M`;
  if (value >= 1e4) return `${(value / 1e3).toFixed(1)} k`;
  return value >= 100 ? exact(Math.round(value)) : String(Math.round(value * 10) / 10);
}
// "1 group", "2 groups"
export const counted = (number, noun) => `${count(number)} ${number === 1 ? noun : `${noun}s`}`;
export const exact = (value) => (value === null || value === undefined ? "–" : value.toLocaleString("en-US"));
export function ms(value) {
  if (value === null || value === undefined) return "–";
  if (value === 0) return "0 ms";
  if (value >= 1000) return `${(value / 1000).toFixed(2)} s`;
  return `${value < 10 ? value.toFixed(2) : value.toFixed(0)} ms`;
}
export const percent = (share) => `${(share * 100).toFixed(share < 0.0995 ? 1 : 0)}%`;
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  for (const [unit, size] of [["d", 86400], ["h", 3600], ["min", 60]]) {
    if (seconds >= size) return `${(seconds / size).toFixed(seconds < 10 * size ? 1 : 0)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}
// seconds: until a disk is full; 0 where nothing is free
export const full = (seconds) => (seconds === 0 ? "full" : `full in ${duration(seconds)}`);
const pad = (number, width = 2) => String(number).padStart(width, "0");
export function time(at) {
  if (at === null || at === undefined || at < 0) return "–";
  const date = new Date(at);
  if (Number.isNaN(date.getTime())) return String(at);
  return `${date.getFullYear()}-${pad(date.getMonth() + 1)}-${pad(date.getDate())} ${pad(date.getHours())}:${pad(date.getMinutes())}:${pad(date.getSeconds())}.${pad(date.getMilliseconds(), 3)}`;
}

// The same in UTC, as the broker's log and the kbroker command have it; null where `time` shows no date.
export function utc(at) {
  const date = new Date(at ?? NaN);
  return at < 0 || Number.isNaN(date.getTime()) ? null : date.toISOString();
}

// A name with its breaks: a narrow place breaks it after a dot, a dash or an underscore, not inside a word.
export const broken = (text) => String(text).split(/(?<=[._-])(?=[^._-])/).map((part, number) => [number > 0 && h("wbr"), part]);

export const tag = (text, kind = "") => h("span", { class: `tag ${kind}` }, text);
export const empty = (title, text, action) => h("div", { class: "empty" }, h("b", {}, title), text, action && h("div", {}, action));
export const loading = () => h("div", { class: "loading", role: "status" }, "Loading");
// heading: h1 where the error is all of the page
export function failed(error, again, heading = "h2") {
  return h("div", { class: "failed", role: "alert" }, h(heading, {}, error.title ?? (error.status === 404 ? "Not found" : "This could not be loaded")), error.message,
    again && h("div", {}, h("button", { class: "button", onclick: again }, "Try again")));
}
export function bar(share) {
  const kind = share > 0.95 ? "bar bad" : share > 0.85 ? "bar warn" : "bar";
  return h("div", { class: kind, role: "img", "aria-label": percent(share) }, h("i", { "width%": share * 100 }));
}
export function panel(title, content, more) {
  return h("section", { class: "panel" }, title && h("header", {}, h("h2", {}, title), more), content);
}
export function head(title, { facts = [], actions = [], crumb } = {}) {
  return h("div", { class: "head" }, crumb && h("div", { class: "crumb" }, h("a", { href: crumb[1] }, `← ${crumb[0]}`)),
    h("h1", {}, typeof title === "string" ? broken(title) : title), facts.length > 0 && h("div", { class: "facts" }, facts.map((fact) => h("span", {}, fact))),
    actions.length > 0 && h("div", { class: "actions" }, actions));
}

// A list has the largest numbers first, and names from A on.
const way = (column) => (column.number ? { order: "descending", arrow: " ↓" } : { order: "ascending", arrow: " ↑" });

// columns: {title, label, cell, number, sort}; label: names a column without a title to screen readers; go: the address a
// row leads to; key: a text by which `update` finds a row again, else that address; label: where the table scrolls and holds nothing that takes the focus. Roles are written out: on a phone a row is a block, and browsers then forget what a table is.
export function table(columns, rows, { go, key, order, onsort, label } = {}) {
  const header = columns.map((column) => h("th", { role: "columnheader", class: [column.number && "n", column.sort && onsort && "sort"].filter(Boolean).join(" "), scope: "col",
    "aria-sort": order && column.sort === order ? way(column).order : null },
  column.sort && onsort ? h("button", { type: "button", onclick: () => onsort(column.sort) }, column.title, order === column.sort ? way(column).arrow : "") : column.title || h("span", { class: "unseen" }, column.label)));
  const body = rows.map((row) => {
    const address = go?.(row);
    const follow = (event) => { if (!event.target.closest("a,button,input") && !getSelection().toString()) location.hash = address; };
    return h("tr", { role: "row", "data-key": key?.(row) ?? address, class: address ? "go" : "", onclick: address ? follow : null },
      columns.map((column) => h("td", { role: "cell", "data-title": column.title || null, class: [column.number && "n", column.wrap && "wrap"].filter(Boolean).join(" ") }, column.cell(row))));
  });
  return h("div", { class: "scroll", ...(label && { tabindex: "0", role: "group", "aria-label": label }) }, h("table", { role: "table" }, columns.some((column) => column.title) && h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, header)), h("tbody", { role: "rowgroup" }, body)));
}

export function toast(text) {
  const box = h("div", { class: "toast" }, text);
  document.getElementById("toasts").append(box);
  setTimeout(() => box.remove(), 5000);
}
