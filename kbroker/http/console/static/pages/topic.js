import { get, path, post, session } from "../api.js";
import { bytes, counted, empty, exact, h, head, panel, rate, tag, time, toast, update, utc } from "../dom.js";
import { ask, field, MAX_NEW_PARTITIONS } from "../dialog.js";
import { columns } from "./groups.js";
import { messages } from "./messages.js";
import { paged } from "./paging.js";
import { follow, stale } from "./refresh.js";
import { settingsTable } from "./settings.js";

const EVERY_MS = 2000, GROUPS_EVERY_MS = 5000, EACH_MS = 2; // and for each partition, so that many of them cost no more

// All follows the stream, but messages stay as they are: a button shows the new ones.
export async function topic(context) {
  const { name, tab = "messages", signal } = context;
  const where = path("topics", name);
  const found = await get(where, {}, signal);
  const notice = h("div"), top = h("div", {}, front(found, tab, context));
  const part = await { messages: () => messages(context, found), partitions: () => partitions(found), groups: () => readers(context), settings: () => settings(found, context) }[tab]?.();
  const body = h("div", {}, part?.element ?? part);
  const page = h("div", { class: "flow" }, notice, top, body);
  follow(context, tab === "messages" ? top : page, async () => {
    try {
      const now = await get(where, {}, signal);
      update(top, front(now, tab, context));
      if (tab !== "settings" || now.settings) await part?.show?.(tab === "settings" ? now.settings : now);
      update(notice);
    } catch (error) { stale(notice, error); }
  }, Math.max(tab === "groups" ? GROUPS_EVERY_MS : EVERY_MS, found.partitions.length * EACH_MS));
  return page;
}

function front(found, tab, context) {
  const address = `#/topics/${encodeURIComponent(found.name)}`;
  const sum = (key) => found.partitions.reduce((total, row) => total + (row[key] ?? 0), 0);
  const tabs = [["messages", "Messages"], ["partitions", `Partitions (${found.partitions.length})`], ["groups", "Groups"], ["settings", "Settings"]];
  return [
    head(found.name, { crumb: ["Topics", "#/topics"],
      facts: [found.internal && tag("internal"), counted(sum("high_watermark") - sum("log_start_offset"), "record"), bytes(sum("bytes")), `${rate(found.in_bytes)} in`, `${rate(found.out_bytes)} out`].filter(Boolean),
      actions: session.readonly ? [] : [h("button", { class: "button", onclick: () => grow(found, context) }, "Add partitions"), h("button", { class: "button danger", onclick: () => remove(found) }, "Delete")] }),
    h("div", { class: "tabs", role: "navigation", "aria-label": "Parts of the topic" }, tabs.map(([key, label]) => h("a", { href: `${address}/${key}`, "aria-current": key === tab ? "page" : null }, label)))];
}

const PARTITIONS = [
  { title: "Partition", number: true, cell: (row) => row.partition },
  { title: "Leader", cell: (row) => (row.leader < 0 ? tag("none", "bad") : row.leader) },
  { title: "Replicas", cell: (row) => [row.replicas.join(", "), row.isr.length < row.replicas.length && [" ", tag(`in sync: ${row.isr.join(", ") || "none"}`, "warn")]] },
  { title: "First offset", number: true, cell: (row) => exact(row.log_start_offset) },
  { title: "End", number: true, cell: (row) => exact(row.high_watermark) },
  { title: "Stable", number: true, cell: (row) => h("span", { class: row.last_stable_offset < row.high_watermark ? "" : "zero" }, exact(row.last_stable_offset)) },
  { title: "Segments", number: true, cell: (row) => exact(row.segments) },
  { title: "Size", number: true, cell: (row) => bytes(row.bytes) },
  { title: "Latest timestamp", cell: (row) => h("span", { class: "mono", title: utc(row.max_timestamp_ms) }, time(row.max_timestamp_ms)) },
];

function partitions(found) {
  const shown = paged(), rows = (now) => shown(PARTITIONS, now.partitions, { key: (row) => String(row.partition) });
  const element = panel(null, rows(found));
  return { element, show: (now) => update(element, rows(now)) };
}

const MOST = 1000; // as the API

async function readers({ name, signal }) {
  const shown = paged();
  const rows = async () => {
    const { groups, total } = await get(path("groups"), { topic: name, limit: MOST }, signal);
    const rest = total > groups.length && h("div", { class: "notice" }, `${exact(total)} groups read this topic. Shown are the ${exact(groups.length)} with the largest lag; the page Groups finds the others.`);
    return groups.length ? [rest, shown(columns(true), groups, { go: (row) => `#/groups/${encodeURIComponent(row.group)}` })]
      : empty("No groups", "No group reads this topic, or has committed an offset in it.");
  };
  const element = panel(null, await rows());
  return { element, show: async () => update(element, await rows()) };
}

function settings(found, context) {
  if (found.settings === null) return panel(null, empty("Settings are not shown", "They need the DescribeConfigs permission on this topic."));
  const change = session.readonly ? null : async (changes) => {
    await post(path("topics", found.name, "settings"), { settings: changes });
    toast(`Settings of ${found.name} are changed.`);
    context.again();
  };
  return settingsTable(found.settings, change);
}

function grow(found, context) {
  const number = h("input", { type: "number", min: String(found.partitions.length + 1), max: String(found.partitions.length + MAX_NEW_PARTITIONS), value: String(found.partitions.length + 1), required: true });
  ask({ title: `Add partitions to ${found.name}`, text: "Keys may then map to other partitions. The number cannot be reduced again.", button: "Add partitions",
    content: field("Total partitions", number),
    run: async () => {
      await post(path("topics", found.name, "partitions"), { partitions: Number(number.value) });
      toast(`${found.name} has ${counted(Number(number.value), "partition")}.`);
      context.again();
    } });
}

function remove(found) {
  ask({ title: `Delete ${found.name}?`, text: "All its records are deleted, too. This cannot be undone.", button: "Delete topic", danger: true, confirm: found.name,
    run: async () => {
      await post(path("topics", found.name, "delete"), { confirm: found.name });
      toast(`Topic ${found.name} is deleted.`);
      location.hash = "#/topics";
    } });
}
