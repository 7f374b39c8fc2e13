import { get, path } from "../api.js";
import { broken, bytes, counted, empty, fill, h, head, panel, table, tag, time, toast } from "../dom.js";
import { listing } from "./listing.js";

const address = (row) => `#/reports/${encodeURIComponent(row.name)}`;
const verdict = (row) => tag(row.verdict, row.tone ? `${row.tone} dot` : "dot");
const SETTING = "kbroker.console.reports.dir";

export const reports = (context) => listing(context, {
  title: "Reports", where: path("reports"), rows: "reports", go: address,
  nothing: (found) => (found.folder === null
    ? empty("No reports folder", h("span", {}, "Set ", h("code", {}, SETTING), " in the broker's properties to the folder in which load tests, the judge, the benchmark and kbroker tune verify --json leave their reports, and restart the broker."))
    : empty("No reports", "The folder holds no verdict of the judge, figures of a load test, results of the benchmark or proof of the tuner.")),
  extra: (found) => [found.problem && h("div", { class: "notice bad" }, `${found.folder}: ${found.problem}`),
    found.left_out > 0 && h("div", { class: "notice" }, `Not read, too many or too large: ${counted(found.left_out, "file")}.`),
    found.folder && h("p", { class: "muted small mono" }, found.folder)],
  columns: [
    { title: "Report", wrap: true, cell: (row) => [h("a", { class: "name", href: address(row) }, broken(row.name)), h("div", { class: "muted small" }, row.kind)] },
    { title: "Verdict", cell: verdict },
    { title: "Written", cell: (row) => h("span", { class: "mono" }, time(row.written_ms).slice(0, 19)) },
    { title: "Figures", wrap: true, cell: (row) => row.figures.map((one) => h("div", {}, h("span", { class: "muted" }, `${one.name} `), one.value)) },
  ],
});

export async function report(context) {
  const where = path("reports", context.name);
  const found = await get(where, {}, context.signal);
  return h("div", { class: "flow" },
    head(found.name, { crumb: ["Reports", "#/reports"], facts: [verdict(found), found.kind, time(found.written_ms).slice(0, 19), bytes(found.bytes)] }),
    found.figures.length > 0 && panel(null, h("dl", { class: "facts pad" }, found.figures.map((one) => h("div", {}, h("dt", {}, one.name), h("dd", {}, one.value))))),
    found.tables.map((one) => panel(one.title, [table(one.columns.map((title, number) => ({ title, label: number ? "Value" : "Name", wrap: one.rows.some((row) => row[number].length > 24), cell: (row) => row[number] })), one.rows),
      one.left_out > 0 && h("p", { class: "pad muted" }, `${one.left_out} more are in the text below.`)])),
    panel("Text of the report", text(found, where, context)));
}

function text(found, where, { signal }) {
  const box = h("pre", { class: "text", tabindex: "0", "aria-label": "Text of the report" }, found.text);
  const foot = h("div");
  const more = (next) => fill(foot, next !== null && h("div", { class: "pager" }, h("button", { class: "button", onclick: () => go(next) }, "Show more")));
  async function go(offset) {
    try {
      const part = await get(where, { offset }, signal);
      box.append(part.text);
      more(part.next_offset);
    } catch (error) { if (error.name !== "AbortError") toast(error.message); }
  }
  more(found.next_offset);
  return [box, foot];
}
