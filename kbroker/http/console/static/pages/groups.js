import { path } from "../api.js";
import { broken, count, empty, h, tag } from "../dom.js";
import { choice, field } from "../dialog.js";
import { listing } from "./listing.js";

export const stateTag = (state) => tag(state || "unknown", { Stable: "good dot", Empty: "dot", Dead: "bad dot" }[state] ?? "warn dot");

// of_topic: the lag is that in one topic, and the topics are left out
export const columns = (of_topic) => [
  { title: "Group", sort: "name", cell: (row) => h("a", { class: "name", href: `#/groups/${encodeURIComponent(row.group)}` }, broken(row.group)) },
  { title: "Kind", cell: (row) => row.kind },
  { title: "State", cell: (row) => stateTag(row.state) },
  ...(of_topic ? [] : [{ title: "Topics", wrap: true, cell: (row) => (row.topics.length > 3 ? broken(`${row.topics.slice(0, 3).join(", ")} and ${row.topics.length - 3} more`) : row.topics.length ? broken(row.topics.join(", ")) : h("span", { class: "zero" }, "–")) }]),
  { title: "Members", number: true, cell: (row) => h("span", { class: row.members ? "" : "zero" }, row.members ?? "–") },
  { title: of_topic ? "Lag in this topic" : "Lag", sort: "lag", number: true, cell: (row) => h("span", { class: row.lag ? "" : "zero" }, count(row.lag)) },
];

export function groups(context) {
  const kind = choice([["", "All kinds"], ["classic", "Classic"], ["consumer", "Consumer"], ["share", "Share"], ["streams", "Streams"]], "");
  kind.setAttribute("aria-label", "Kind of groups");
  return listing(context, {
    title: "Groups", where: path("groups"), rows: "groups", search: true, order: "lag",
    go: (row) => `#/groups/${encodeURIComponent(row.group)}`,
    more: { values: () => ({ kind: kind.value }), build: (change) => { kind.onchange = change; return kind; } },
    nothing: () => empty("No groups", "Groups appear when consumers join them."),
    columns: columns(false),
  });
}
