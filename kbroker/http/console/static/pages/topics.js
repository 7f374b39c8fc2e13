import { path, post, session } from "../api.js";
import { broken, bytes, count, empty, h, rate, tag, toast } from "../dom.js";
import { ask, field, MAX_NEW_PARTITIONS, settings } from "../dialog.js";
import { listing } from "./listing.js";

const quiet = (value, show) => h("span", { class: value ? "" : "zero" }, show(value));

export function topics(context) {
  const internal = h("input", { type: "checkbox" });
  return listing(context, {
    title: "Topics", where: path("topics"), rows: "topics", search: true, order: "name",
    go: (row) => `#/topics/${encodeURIComponent(row.name)}`,
    actions: session.readonly ? [] : [h("button", { class: "button main", onclick: () => create(context) }, "New topic")],
    more: { values: () => ({ internal: internal.checked ? "true" : "" }),
      build: (change) => { internal.onchange = change; return h("label", { class: "check" }, internal, "Internal topics"); } },
    nothing: () => empty("No topics yet", "A topic is created by the first client that asks for one, or with ", h("code", {}, "kbroker topics create")),
    columns: [
      { title: "Topic", sort: "name", cell: (row) => [h("a", { class: "name", href: `#/topics/${encodeURIComponent(row.name)}` }, broken(row.name)), row.internal && [" ", tag("internal")]] },
      { title: "Partitions", number: true, cell: (row) => [row.under_replicated > 0 && [tag(`${row.under_replicated} under-replicated`, "bad"), " "], row.partitions] },
      { title: "Replicas", number: true, cell: (row) => row.replicas },
      { title: "Records", number: true, cell: (row) => quiet(row.records, count) },
      { title: "Size", sort: "bytes", number: true, cell: (row) => quiet(row.bytes, bytes) },
      { title: "In", sort: "in_bytes", number: true, cell: (row) => quiet(row.in_bytes, rate) },
      { title: "Out", sort: "out_bytes", number: true, cell: (row) => quiet(row.out_bytes, rate) },
    ],
  });
}

function create(context) {
  const name = h("input", { type: "text", required: true, maxlength: "249", spellcheck: false, autocomplete: "off" });
  const partitions = h("input", { type: "number", min: "1", max: String(MAX_NEW_PARTITIONS), placeholder: "default" });
  const replicas = h("input", { type: "number", min: "1", max: "64", placeholder: "default" });
  const more = h("textarea", { rows: "3", spellcheck: false, placeholder: "retention.ms=86400000" });
  ask({ title: "New topic", button: "Create topic",
    content: [field("Name", name), h("div", { class: "fields" }, field("Partitions", partitions), field("Replicas", replicas)), field("Settings, one per line", more)],
    run: async () => {
      const number = (input) => (input.value ? Number(input.value) : -1);
      await post(path("topics"), { name: name.value.trim(), partitions: number(partitions), replicas: number(replicas), settings: settings(more.value) });
      toast(`Topic ${name.value.trim()} is created.`);
      context.again();
    } });
}
