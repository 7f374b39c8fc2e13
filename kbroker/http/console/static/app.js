// The frame: navigation, session, theme, and which page an address shows.
import { load, post, session } from "./api.js";
import { redraw } from "./charts.js";
import { failed, fill, h, loading } from "./dom.js";
import { overview } from "./pages/overview.js";
import { topics } from "./pages/topics.js";
import { topic } from "./pages/topic.js";
import { groups } from "./pages/groups.js";
import { group } from "./pages/group.js";
import { acls, quotas, users } from "./pages/access.js";
import { clients, transactions } from "./pages/lists.js";
import { logDirs } from "./pages/log_dirs.js";
import { host } from "./pages/host.js";
import { report, reports } from "./pages/reports.js";
import { settings } from "./pages/settings.js";
import { login } from "./pages/login.js";

const SECTIONS = [
  ["", "Overview"], ["topics", "Topics"], ["groups", "Groups"], ["transactions", "Transactions"], ["clients", "Clients"],
  null, ["quotas", "Quotas"], ["users", "Users"], ["acls", "ACLs"], null, ["log-dirs", "Log dirs"], ["host", "Host"], ["reports", "Reports"], ["settings", "Settings"],
];
const PAGES = { "": overview, topics, topic, groups, group, transactions, clients, quotas, users, acls, "log-dirs": logDirs, host, reports, report, settings };
const TITLES = Object.fromEntries(SECTIONS.filter(Boolean));
const main = document.getElementById("main");
const side = document.querySelector(".side");
const menu = document.getElementById("menu");
let leave = () => {};

function place() {
  const [path, query = ""] = location.hash.replace(/^#\/?/, "").split("?");
  let parts;
  try { parts = path.split("/").map(decodeURIComponent); } catch { parts = [""]; }
  return { parts, query: new URLSearchParams(query) };
}

// On a narrow screen the sections open below a button that names the present one.
function unfold(open) {
  side.classList.toggle("open", open);
  menu.setAttribute("aria-expanded", String(open));
}

function frame(section) {
  fill(menu, h("span", { "aria-hidden": "true" }, "☰ "), TITLES[section] ?? "Sections");
  unfold(false);
  fill(document.getElementById("nav"), SECTIONS.map((one) => (one === null ? h("div", { class: "group" })
    : h("a", { href: `#/${one[0]}`, "aria-current": one[0] === section ? "page" : null }, one[1]))));
  const theme = h("button", { class: "button quiet", type: "button", onclick: turn, title: "Light, dark, or as the system" }, themeName());
  fill(document.getElementById("foot"),
    session.user && h("div", { class: "row" }, h("span", { class: "far" }, session.user), h("button", { class: "button quiet", onclick: signOut }, "Log out")),
    h("div", { class: "row" }, h("span", { class: "far" }, session.readonly ? "read-only" : "writable"), theme),
    h("div", { class: "row far" }, h("span", {}, session.version), h("a", { href: "/api/openapi.json" }, "API")));
}

const chosen = () => document.documentElement.dataset.theme ?? "system";
const themeName = () => ({ system: "◐ System", light: "◐ Light", dark: "◐ Dark" })[chosen()];
function turn(event) {
  const next = { system: "light", light: "dark", dark: "system" }[chosen()];
  if (next === "system") delete document.documentElement.dataset.theme; else document.documentElement.dataset.theme = next;
  try { if (next === "system") localStorage.removeItem("theme"); else localStorage.setItem("theme", next); } catch { /* not kept */ }
  event.target.textContent = themeName();
  redraw();
}

async function signOut() {
  try { await post("/api/logout", {}); } finally { await begin(); }
}

async function show() {
  leave();
  leave = () => {};
  const { parts, query } = place();
  const [section, name, tab] = parts;
  const kind = name !== undefined && name !== "" ? { topics: "topic", groups: "group", reports: "report" }[section] : section;
  const page = PAGES[kind];
  frame(section);
  document.title = `${name || TITLES[section] || "Not found"} · kbroker`;
  if (!page) { fill(main, failed({ title: "There is no such page", message: "" }, null, "h1")); return; }
  fill(main, loading());
  const control = new AbortController();
  const closers = [];
  leave = () => { control.abort(); closers.forEach((close) => close()); };
  const context = { name, tab, query, signal: control.signal, onleave: (close) => closers.push(close), again: show };
  try {
    const content = await page(context);
    if (!control.signal.aborted) fill(main, content);
  } catch (error) {
    if (!control.signal.aborted && error.name !== "AbortError") fill(main, failed(error, show, "h1"));
    if (!("code" in error) && error.name !== "AbortError") console.error(error);
  }
}

async function begin() {
  try { await load(); } catch (error) { fill(main, failed(error, begin, "h1")); return; }
  if (session.access === "login" && !session.user) {
    leave();
    leave = () => {};
    side.hidden = true;
    fill(main, login(begin));
    main.querySelector("input")?.focus();
    return;
  }
  side.hidden = false;
  await show();
}

addEventListener("hashchange", () => { show(); scrollTo(0, 0); main.focus({ preventScroll: true }); });
addEventListener("signed-out", () => { if (session.user) begin(); });
menu.addEventListener("click", () => unfold(!side.classList.contains("open")));
addEventListener("click", (event) => { if (!event.target.closest("#menu")) unfold(false); });
addEventListener("keydown", (event) => {
  if (event.key === "Escape" && side.classList.contains("open")) { unfold(false); menu.focus(); }
  if (event.key === "/" && !event.target.closest("input,textarea,select,dialog")) {
    const search = main.querySelector("input[type=search]");
    if (search) { event.preventDefault(); search.focus(); }
  }
});
begin();
