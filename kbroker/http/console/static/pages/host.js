import { get, path } from "../api.js";
import { counted, empty, fill, h, head, panel, tag, time } from "../dom.js";
import { choice } from "../dialog.js";

const STATES = { serious: ["serious", "bad dot"], advice: ["advice", "warn dot"], note: ["note", "dot"], unseen: ["not visible", ""], ok: ["ok", "good dot"] };
const NOUNS = { serious: "serious problem", advice: "recommendation", note: "note" };
const SHOWN = [["wrong", "Needs attention"], ["unseen", "Not visible from here"], ["ok", "OK"], ["", "All"]];
const isShown = (row, kind) => kind === "" || (kind === "wrong" ? row.severity !== "ok" && row.severity !== "unseen" : row.severity === kind);
const DONE_BY = { sysctl: "as root", sysfs: "as root", mount: "as root", property: "in the broker's properties", limit: "in the systemd unit", hand: "by hand" };

export async function host(context) {
  const found = await get(path("host"), {}, context.signal);
  const number = (state) => found.findings.filter((row) => row.severity === state).length;
  const search = h("input", { type: "search", placeholder: "Search   /", "aria-label": "Search findings", oninput: () => draw() });
  const kind = choice(SHOWN, "wrong");
  kind.setAttribute("aria-label", "Which findings");
  kind.onchange = () => draw();
  const total = h("span", { class: "end" });
  const box = h("div");
  function draw() {
    const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
    const rows = found.findings.filter((row) => isShown(row, kind.value) && words.every((word) => `${row.knob} ${row.why}`.toLowerCase().includes(word)));
    fill(total, `${rows.length} of ${found.findings.length}`);
    fill(box, rows.length ? h("ul", { class: "findings" }, rows.map(finding))
      : words.length ? empty("Nothing found", "No finding of this kind contains that.") : empty("Nothing here", kind.value === "wrong" ? "The tuner found no problem." : "There is no finding of this kind."));
  }
  draw();
  return h("div", { class: "flow" },
    head("Host", { facts: [...["serious", "advice", "note"].filter(number).map((state) => tag(counted(number(state), NOUNS[state]), STATES[state][1])), `checked ${time(found.checked_ms).slice(11, 19)}`],
      actions: [h("button", { class: "button", onclick: context.again }, "Check again")] }),
    panel(null, [h("div", { class: "tools" }, search, kind, total), box]),
    h("p", { class: "muted small" }, `Workload: ${found.workload.join(", ")}. The console changes nothing here; `, h("code", {}, "kbroker tune script"), " writes the remedies as a script, ", h("code", {}, "kbroker tune verify"), " proves them."));
}

function finding(row) {
  const [text, kind] = STATES[row.severity] ?? [row.severity, ""];
  return h("li", {}, h("div", {}, tag(text, kind)),
    h("div", {}, h("h2", {}, row.knob), h("p", { class: "soft" }, row.why), h("p", { class: "muted small" }, row.source)),
    h("div", { class: "stack" }, row.now && h("div", {}, h("span", { class: "muted" }, "now "), h("span", { class: "mono" }, row.now)),
      row.proposed && h("div", {}, h("span", { class: "muted" }, "recommended "), h("b", { class: "mono" }, row.proposed)),
      row.remedy && h("div", {}, h("div", { class: "muted small" }, `Remedy, ${DONE_BY[row.remedy.means] ?? row.remedy.means}`),
        row.remedy.means === "hand" ? row.remedy.apply : h("pre", { tabindex: "0", "aria-label": `Remedy of ${row.knob}` }, row.remedy.apply),
        row.remedy.undo && h("div", { class: "muted small" }, "undo: ", h("span", { class: "mono" }, row.remedy.undo)))));
}
