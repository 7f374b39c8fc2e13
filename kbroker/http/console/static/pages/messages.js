import { get, listen, path } from "../api.js";
import { bytes, count, counted, empty, failed, fill, h, loading, panel, tag, time, update, utc } from "../dom.js";
import { choice, field } from "../dialog.js";

const SHOWN = 500;
const LIMIT = 50;
const ALL_AT_MOST = 256; // as the API
const SCROLLS = 1000; // characters of a text that may be higher than its place
const COLORED = 200_000; // characters of JSON that are formatted
const DEEPEST = 64; // levels of formatted JSON
const SCHEMAS = { AVRO: "Avro", JSON: "JSON", PROTOBUF: "Protobuf" };

// Returns the element, and a function that takes the topic as it is now and offers its new records.
export function messages(context, topic) {
  const many = topic.partitions.length > ALL_AT_MOST;
  const partition = many ? h("input", { type: "number", min: "0", max: String(topic.partitions.length - 1), value: "0", required: true })
    : choice([["", "All"], ...topic.partitions.map((row) => [String(row.partition), String(row.partition)])], "");
  const start = choice([["latest", "Latest"], ["earliest", "Earliest"], ["offset", "Offset"], ["time", "Time"]], "latest");
  const offset = h("input", { type: "number", min: "0", value: "0" });
  const at = h("input", { type: "datetime-local", step: "1" });
  const key = h("input", { type: "search", placeholder: "contains" });
  const value = h("input", { type: "search", placeholder: "contains" });
  const committed = h("input", { type: "checkbox" });
  const tail = h("button", { class: "button", type: "button", "aria-pressed": "false", onclick: () => (stop ? follow(false) : follow(true)) }, "Live tail");
  const offsetField = field("Offset", offset), timeField = field("From", at);
  const note = h("span", { class: "end", role: "status" });
  const fresh = h("div", { role: "status" });
  const list = h("div", {}, loading());
  const foot = h("div");
  let stop = null, control = null, now = topic, ends = new Map(), latest = false;
  const filters = () => ({ partition: partition.value || (many ? "0" : ""), key: key.value, value: value.value, committed: committed.checked ? "true" : "" });
  const where = path("topics", topic.name, "messages");
  const whole = async ({ partition: of, offset: start_at }) => (await get(where, { start: "offset", partition: of, offset: start_at, limit: 1 }, context.signal)).records[0];
  const shown = (record) => message(record, whole);

  async function read(more = {}) {
    follow(false);
    control?.abort();
    control = new AbortController();
    offsetField.hidden = start.value !== "offset";
    timeField.hidden = start.value !== "time";
    const asked = { ...filters(), start: start.value, limit: LIMIT, ...more };
    if (start.value === "offset") asked.offset = offset.value || 0;
    if (start.value === "time") asked.time_ms = at.value ? new Date(at.value).getTime() : 0;
    if (!more.cursor) { latest = false; show(); fill(list, loading()); }
    try {
      const found = await get(where, asked, control.signal);
      const newest = start.value === "latest" && !more.cursor;
      const records = newest ? found.records.toReversed() : found.records;
      if (!more.cursor) fill(list);
      list.append(...records.map(shown));
      if (newest) shownUpTo(records);
      if (!list.children.length) fill(list, nothing(found));
      fill(note, found.scanned_bytes > 2e6 ? `${bytes(found.scanned_bytes)} searched` : "");
      fill(foot, !newest && !found.complete && h("div", { class: "pager" }, h("button", { class: "button", onclick: () => read({ cursor: found.cursor }) }, found.records.length ? "More" : "Continue the search")),
        newest && records.length > 0 && (many || topic.partitions.length === 1) && h("div", { class: "pager" }, "the latest records first"));
    } catch (error) {
      if (error.name !== "AbortError") { fill(list, failed(error, () => read())); fill(foot); }
    }
  }

  function shownUpTo(records) {
    latest = true;
    ends = new Map(now.partitions.map((row) => [row.partition, row.high_watermark]));
    for (const one of records) ends.set(one.partition, Math.max(ends.get(one.partition) ?? 0, one.offset + 1));
  }

  function show(found = now) {
    now = found;
    const rows = latest ? now.partitions.filter((row) => !partition.value || row.partition === Number(partition.value)) : [];
    const added = rows.reduce((sum, row) => sum + Math.max(0, row.high_watermark - (ends.get(row.partition) ?? 0)), 0);
    update(fresh, added > 0 && h("div", { class: "pager" }, h("button", { class: "button", type: "button", onclick: () => read() }, `Show ${counted(added, "new record")}`)));
  }

  const filtered = () => key.value || value.value || committed.checked;
  const nothing = (found) => (filtered() ? empty("Nothing found", found.complete || start.value === "latest" ? "No record here matches; start from Earliest to search the whole topic." : `${bytes(found.scanned_bytes)} were searched; continue below.`)
    : empty("No records", "This part of the log is empty. ", h("span", {}, "Live tail shows new records.")));

  function follow(on) {
    stop?.();
    stop = null;
    tail.setAttribute("aria-pressed", String(on));
    tail.className = on ? "button main" : "button";
    tail.textContent = on ? "Stop" : "Live tail";
    if (!on) { fill(note); return; }
    control?.abort();
    latest = false;
    show();
    fill(foot);
    fill(list, empty("Waiting for records", "New records appear here."));
    let first = true, left = 0;
    stop = listen(path("topics", topic.name, "tail"), filters(), {
      records: (found) => {
        if (first) fill(list);
        first = false;
        left += found.left_out;
        list.prepend(...found.records.toReversed().map(shown));
        while (list.children.length > SHOWN) list.lastElementChild.remove();
        fill(note, tag("live", "dot good"), left ? ` ${count(left)} more than could be shown` : "");
      },
      // What passes ends this stream alone: it is opened again.
      refused: (refusal) => { if (refusal.status < 500) { follow(false); fill(list, failed(refusal)); } },
    }, (open) => fill(note, open ? tag("live", "dot good") : tag("connecting", "dot warn")));
  }
  context.onleave(() => { stop?.(); control?.abort(); });

  let wait;
  const later = () => { clearTimeout(wait); wait = setTimeout(() => (stop ? follow(true) : read()), 350); };
  for (const input of [partition, start, committed, at]) input.onchange = later;
  for (const input of [key, value, offset]) input.oninput = later;
  const tools = h("div", { class: "tools" }, field("Partition", partition), field("Start at", start), offsetField, timeField, field("Key", key), field("Value or header", value),
    h("label", { class: "check" }, committed, "Committed only"), tail, note);
  read();
  return { element: panel(null, [tools, fresh, list, foot]), show };
}

const text = (data) => (data === null ? h("span", { class: "muted" }, "null") : data.encoding === "base64" ? h("span", { class: "muted" }, `${bytes(data.size)} binary`) : data.text || h("span", { class: "muted" }, "empty"));
const flat = (data) => (data && data.encoding === "utf-8" ? data.text.slice(0, 400).replace(/\s+/g, " ") : null);

// whole: async, the record with as much of its value as the API gives
function message(record, whole) {
  const details = h("details", { class: "message" }, h("summary", {},
    h("span", { class: "mono soft", title: utc(record.timestamp_ms) }, time(record.timestamp_ms)),
    h("span", { class: "mono muted", title: "partition:offset" }, `${record.partition}:${record.offset}`),
    h("span", { class: "mono" }, flat(record.key) || text(record.key)), h("span", { class: "mono soft" }, flat(record.value) || text(record.value))));
  details.addEventListener("toggle", () => { if (details.open && details.children.length === 1) details.append(body(record, whole)); });
  return details;
}

function body(record, whole) {
  const error = h("span", { class: "error", role: "alert" });
  const more = h("button", { class: "button", type: "button", onclick: async () => {
    more.disabled = true;
    try {
      const found = await whole(record);
      if (found?.offset !== record.offset) throw new Error("The record is no longer in the log.");
      const fresh = body(found, null);
      element.replaceWith(fresh);
      fresh.parentElement.querySelector("summary").focus();
    } catch (failure) { more.disabled = false; fill(error, failure.message); }
  } }, "Show more of it");
  const cut = record.key?.cut || record.value?.cut;
  const part = (title, data) => h("div", {}, h("h2", {}, title, data ? ` · ${bytes(data.size)}${data.encoding === "base64" ? ", base64" : ""}${data.schema ? `, ${SCHEMAS[data.schema.type] ?? data.schema.type} schema ${data.schema.id}` : ""}${data.cut ? ", cut" : ""}` : ""), pretty(data, title));
  const element = h("div", { class: "body" }, record.key && part("Key", record.key), part("Value", record.value),
    cut && (whole ? h("div", {}, more, " ", error) : h("p", { class: "muted" }, "The page shows no more of it; kbroker consume does.")),
    record.headers.length > 0 && h("div", {}, h("h2", {}, "Headers"), h("pre", {}, record.headers.map((one) => [h("span", { class: "j-key" }, one.name), ": ", text(one.value), "\n"]))));
  return element;
}

// A text that scrolls takes the focus, so that the keyboard can move it.
function pretty(data, title) {
  const scrolls = data?.text.length > SCROLLS ? { tabindex: "0", role: "group", "aria-label": title } : {};
  if (data === null) return h("pre", {}, h("span", { class: "muted" }, "null"));
  if (data.encoding === "utf-8" && !data.cut && data.text.length < COLORED && /^\s*[[{]/.test(data.text)) {
    try { JSON.parse(data.text); return h("pre", scrolls, colored(indented(data.text))); } catch { /* text that only begins like JSON, or nests too deeply */ }
  }
  return h("pre", scrolls, data.text);
}

// A line for each member of valid JSON. Numbers stay as they are written: those of JavaScript have 53 bits.
function indented(json) {
  let depth = 0;
  const line = () => `\n${"  ".repeat(depth)}`;
  return json.replace(/"(?:\\.|[^"\\])*"|[{[]\s*[}\]]|[{}[\],:]|\s+/g, (token) => {
    if (token[0] === '"') return JSON.stringify(JSON.parse(token)); // readable escapes
    if (token.trim() === "") return "";
    if (token.length > 1) return token[0] + token.at(-1);
    if (token === ":") return ": ";
    if (token === ",") return token + line();
    depth += "{[".includes(token) ? 1 : -1;
    if (depth > DEEPEST) throw new RangeError("too deep");
    return "{[".includes(token) ? token + line() : line() + token;
  });
}

function colored(json) {
  const parts = [];
  let end = 0;
  for (const match of json.matchAll(/("(?:\\.|[^"\\])*")(\s*:)?|\b(?:true|false|null)\b|-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?/g)) {
    parts.push(json.slice(end, match.index));
    const kind = match[1] ? (match[2] ? "j-key" : "j-text") : /^[tfn]/.test(match[0]) ? "j-word" : "j-number";
    parts.push(h("span", { class: kind }, match[1] ?? match[0]), match[2] ?? "");
    end = match.index + match[0].length;
  }
  return [...parts, json.slice(end)];
}
