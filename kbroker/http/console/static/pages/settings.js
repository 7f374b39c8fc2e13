import { get, path, post, session } from "../api.js";
import { broken, empty, fill, h, head, panel, table, tag, toast, update } from "../dom.js";
import { ask, field } from "../dialog.js";
import { follow, stale } from "./refresh.js";

const EVERY_MS = 10000;

// change: async (changes by name) or null where nothing may be changed. Returns the element, and a function that shows
// other rows with the same search.
export function settingsTable(rows, change) {
  const search = h("input", { type: "search", placeholder: "Search   /", "aria-label": "Search settings", oninput: () => draw() });
  const only = h("input", { type: "checkbox", onchange: () => draw() });
  const total = h("span", { class: "end" });
  const box = h("div");
  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const shown = rows.filter((row) => (!only.checked || row.source !== "default") && words.every((word) => `${row.name} ${row.text}`.toLowerCase().includes(word)));
    fill(total, `${shown.length} of ${rows.length}`);
    update(box, shown.length ? table([
      { title: "Setting", wrap: true, cell: (row) => [h("span", { class: "name mono" }, broken(row.name)), row.text && h("div", { class: "muted small" }, row.text)] },
      { title: "Value", wrap: true, cell: (row) => (row.sensitive ? tag("hidden") : row.value ? h("span", { class: "mono" }, broken(row.value)) : h("span", { class: "muted" }, row.value === null ? "not set" : "empty")) },
      { title: "Source", cell: (row) => (row.source === "default" ? h("span", { class: "muted" }, "default") : tag(row.source, "good")) },
      ...(change ? [{ title: "", label: "Change", number: true, cell: (row) => !row.read_only && h("button", { class: "button quiet", onclick: () => edit(row, change) }, "Change") }] : []),
    ], shown, { key: (row) => row.name }) : empty("Nothing found", only.checked && !words.length ? "Every setting has its default." : "No setting matches."));
  }
  draw();
  const element = panel(null, [h("div", { class: "tools" }, search, h("label", { class: "check" }, only, "Changed only"), total), box]);
  return { element, show: (now) => { rows = now; draw(); } };
}

// The value of a sensitive setting is not shown: without `required`, a click would set it to the empty text.
function edit(row, change) {
  const value = h("input", { type: row.sensitive ? "password" : "text", value: row.value ?? "", required: row.sensitive, spellcheck: false, autocomplete: "off" });
  const back = h("input", { type: "checkbox", onchange: () => { value.disabled = back.checked; } });
  ask({ title: row.name, text: row.text, button: "Change setting", content: [field(`Value (${row.type})`, value), h("label", { class: "check" }, back, "Restore the default")],
    run: () => change({ [row.name]: back.checked ? null : value.value }) });
}

export async function settings(context) {
  const found = await get(path("settings"), {}, context.signal);
  const change = session.readonly ? null : async (changes) => {
    await post(path("settings"), { settings: changes });
    toast("The setting is changed.");
    context.again();
  };
  const shown = settingsTable(found.settings, change), notice = h("div");
  follow(context, shown.element, async () => {
    try { shown.show((await get(path("settings"), {}, context.signal)).settings); update(notice); } catch (error) { stale(notice, error); }
  }, EVERY_MS);
  return h("div", { class: "flow" }, notice, head("Settings", { facts: ["of this broker"] }), shown.element);
}
