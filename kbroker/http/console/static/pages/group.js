import { get, path, post, session } from "../api.js";
import { broken, count, counted, empty, exact, fill, h, head, panel, table, toast } from "../dom.js";
import { ask, choice, field } from "../dialog.js";
import { stateTag } from "./groups.js";
import { paged } from "./paging.js";
import { refreshed } from "./refresh.js";

export async function group(context) {
  const { name, signal } = context;
  const shown = paged();
  return refreshed(context, async () => {
    const found = await get(path("groups", name), {}, signal);
    const most = Math.max(1, ...found.partitions.map((row) => row.lag ?? 0));
    const resettable = ["classic", "consumer"].includes(found.kind);
    return [head(name, { crumb: ["Groups", "#/groups"], facts: [stateTag(found.state), `${found.kind} group`, found.assignor && `assignor ${found.assignor}`, `lag ${count(found.lag)}`].filter(Boolean),
      actions: session.readonly ? [] : [resettable && h("button", { class: "button", onclick: () => reset(found, context) }, "Reset offsets"), h("button", { class: "button danger", onclick: () => remove(found) }, "Delete")].filter(Boolean) }),
    panel("Partitions", found.partitions.length ? shown([
      { title: "Topic", cell: (row) => h("a", { class: "name", href: `#/topics/${encodeURIComponent(row.topic)}` }, broken(row.topic)) },
      { title: "Partition", number: true, cell: (row) => row.partition },
      { title: found.kind === "share" ? "Start" : "Committed", number: true, cell: (row) => exact(row.committed_offset) },
      { title: "End", number: true, cell: (row) => exact(row.log_end_offset) },
      { title: "Lag", number: true, cell: (row) => h("span", { class: row.lag ? "" : "zero" }, exact(row.lag)) },
      { title: "", label: "Lag beside the largest", cell: (row) => (row.lag ? h("div", { class: "bar" }, h("i", { "width%": (row.lag / most) * 100 })) : null) },
      { title: "Client", wrap: true, cell: (row) => (row.client_id ? [row.client_id, " ", h("span", { class: "muted" }, row.host)] : h("span", { class: "zero" }, "no member")) },
    ], found.partitions, { key: (row) => `${row.topic}/${row.partition}` }) : empty("Nothing committed", "The group has no committed offsets and no assigned partitions.")),
    panel(`Members (${found.members.length})`, found.members.length ? table([
      { title: "Client", cell: (row) => h("span", { class: "name" }, broken(row.client_id)) },
      { title: "Host", cell: (row) => row.host },
      { title: "Member", wrap: true, cell: (row) => h("span", { class: "mono soft" }, row.instance_id ? `${row.instance_id} (static)` : row.member_id) },
      { title: "Assignment", wrap: true, cell: (row) => row.assignment.map((one) => h("div", {}, broken(one.topic), " ", h("span", { class: "muted" }, one.partitions.join(", ")))) },
    ], found.members, { key: (row) => row.member_id }) : empty("No members", "No consumer uses this group now."))];
  });
}

function reset(found, context) {
  const topics = [...new Set(found.partitions.map((row) => row.topic))];
  const topic = choice([["", "All topics"], ...topics.map((one) => [one, one])], "");
  const to = choice([["earliest", "Earliest"], ["latest", "Latest"], ["offset", "Offset"], ["time", "Time"], ["shift", "Shift by"]], "earliest");
  const number = h("input", { type: "number", value: "0" });
  const at = h("input", { type: "datetime-local", step: "1" });
  const numberField = field("Number", number), timeField = field("First record from", at);
  const preview = h("div", { class: "preview" }), pages = paged();
  const wanted = (show) => ({ to: to.value, preview: show, ...(topic.value ? { topic: topic.value } : {}),
    ...(to.value === "offset" ? { offset: Number(number.value) } : {}), ...(to.value === "shift" ? { by: Number(number.value) } : {}),
    ...(to.value === "time" ? { time_ms: at.value ? new Date(at.value).getTime() : Date.now() } : {}) });
  async function look() {
    numberField.hidden = !["offset", "shift"].includes(to.value);
    timeField.hidden = to.value !== "time";
    try {
      const { moves } = await post(path("groups", found.group, "reset"), wanted(true));
      fill(preview, pages([
        { title: "Topic", cell: (row) => row.topic }, { title: "Partition", number: true, cell: (row) => row.partition },
        { title: "Now", number: true, cell: (row) => exact(row.before) }, { title: "Then", number: true, cell: (row) => h("b", {}, exact(row.after)) },
        { title: "Change", number: true, cell: (row) => `${row.change > 0 ? "+" : ""}${exact(row.change)}` }], moves, { label: "Preview" }));
    } catch (error) { fill(preview, h("p", { class: "error pad" }, error.message)); }
  }
  for (const input of [topic, to, number, at]) input.onchange = look;
  look();
  const active = !["Empty", "Dead"].includes(found.state);
  ask({ title: `Reset offsets of ${found.group}`, button: "Reset offsets", danger: true, confirm: found.group,
    text: active ? "The group has members: stop them first. The preview shows what would change." : "Members that join later continue from the new offsets.",
    content: [h("div", { class: "fields" }, field("Topic", topic), field("To", to), numberField, timeField), preview],
    run: async () => {
      const { moves } = await post(path("groups", found.group, "reset"), wanted(false));
      toast(`Reset: ${counted(moves.length, "offset")} of ${found.group}.`);
      context.again();
    } });
}

function remove(found) {
  ask({ title: `Delete ${found.group}?`, text: "Its committed offsets are deleted, too. Members that join later start without them.", button: "Delete group", danger: true, confirm: found.group,
    run: async () => {
      await post(path("groups", found.group, "delete"), { confirm: found.group });
      toast(`Group ${found.group} is deleted.`);
      location.hash = "#/groups";
    } });
}
