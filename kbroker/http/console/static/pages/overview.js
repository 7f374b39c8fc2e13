import { get, listen, path } from "../api.js";
import { Chart } from "../charts.js";
import { bar, bytes, count, counted, empty, fill, full, h, head, marked, ms, panel, percent, rate, tag } from "../dom.js";
import { whileSeen } from "./refresh.js";

const KEPT = 300;
// Each request has all stages of its API; they add up to its total.
export const STAGES = {
  produce: [["queue", "queue"], ["append", "append"], ["flush", "sync"], ["respond", "respond"]],
  fetch: [["queue", "queue"], ["local", "look-up"], ["purgatory", "wait"], ["cold_read", "disk read"], ["send", "send"]],
};
const key = (color, text) => h("span", {}, h("i", { class: `swatch ${color}` }), text);
const split = (text) => { const at = text.indexOf(" "); return at < 0 ? [text] : [text.slice(0, at), h("small", {}, text.slice(at + 1))]; };
const tile = (title, value, note) => h("div", { class: "tile" }, h("dt", {}, title), h("dd", {}, split(value)), h("dd", { class: "note" }, note ?? "\u00a0"));

// The points of the charts with those that the broker has: a page that was hidden, or had no stream, lacks some.
export function merged(points, history) {
  if (history.length === 0) return points;
  const first = history[0].at_ms, last = history.at(-1).at_ms;
  return [...points.filter((point) => point.at_ms < first), ...history, ...points.filter((point) => point.at_ms > last)].slice(-KEPT);
}

export async function overview({ signal, onleave }) {
  const found = await get("/api/overview", {}, signal);
  let points = merged([], found.history);
  const charts = [
    ["Throughput", [["in_bytes", "a", "in", true], ["out_bytes", "b", "out"]], rate, 10000],
    ["Latency, 99th percentile", [["produce_p99_ms", "a", "produce"], ["fetch_p99_ms", "b", "fetch"]], ms, 10],
    ["Lag of all groups", [["lag", "c", "records", true]], count, 10],
    ["Disk", [["disk_write_bytes", "a", "write", true], ["disk_read_bytes", "b", "read"]], rate, 10000],
  ].map(([title, series, show, floor]) => {
    const chart = new Chart(series.map(([name, color, label, filled]) => ({ key: name, color, label, fill: filled })), show, floor);
    onleave(() => chart.close());
    return [chart, panel(title, chart.element, h("span", { class: "key" }, series.map(([, color, label]) => key(color, label))))];
  });
  const state = h("span", {}, tag("live", "dot good"));
  const parts = Object.fromEntries(["notice", "tiles", "produce", "fetch", "topics", "groups", "disks", "processes", "network"].map((name) => [name, h("div")]));
  const draw = (sample) => {
    const lost = sample.log_dirs.filter((dir) => !dir.online).map((dir) => `log dir ${dir.path} is offline`);
    const problems = [...lost, ...sample.problems, ...sample.degraded];
    fill(parts.notice, problems.length > 0 && h("div", { class: lost.length || sample.degraded.length ? "notice bad" : "notice" }, problems.join(" · ")));
    fill(parts.tiles, tiles(sample));
    fill(parts.produce, stages(sample.stages.produce, STAGES.produce, "No produce request in the last ten seconds."));
    fill(parts.fetch, stages(sample.stages.fetch, STAGES.fetch, "No fetch request in the last ten seconds."));
    fill(parts.topics, busiest(sample.top_topics));
    fill(parts.groups, lagging(sample.group_lag));
    fill(parts.disks, disks(sample));
    fill(parts.processes, processes(sample));
    fill(parts.network, network(sample));
  };
  const page = h("div", { class: "flow" },
    head("Overview", { facts: [h("span", { class: "mono" }, found.bootstrap.join(", ")), `node ${found.node_id}`, state] }), parts.notice, parts.tiles,
    h("div", { class: "grid" }, charts.map(([, element]) => element)),
    h("div", { class: "grid three" }, panel("Produce, by stage", parts.produce), panel("Fetch, by stage", parts.fetch), panel("Disks and page cache", parts.disks)),
    h("div", { class: "grid three" }, panel("Busiest topics", parts.topics, h("a", { href: "#/topics?sort=in_bytes", class: "key" }, "all")),
      panel("Largest lag", parts.groups, h("a", { href: "#/groups", class: "key" }, "all")), panel("Network", parts.network)),
    panel("Processes", parts.processes));
  draw(found.sample);
  const plot = () => charts.forEach(([chart]) => chart.set(points));
  requestAnimationFrame(plot);
  async function catchUp() {
    try { points = merged(points, (await get("/api/overview", {}, signal)).history); plot(); } catch { /* with the next stream */ }
  }
  whileSeen(onleave, () => listen(path("events"), {}, {
    sample: (sample) => {
      points = merged(points, [chartPoint(sample)]);
      plot();
      if (!marked(page)) draw(sample);
    },
  }, (open) => { fill(state, open ? tag("live", "dot good") : tag("connecting", "dot warn")); if (open) catchUp(); }));
  return page;
}

function chartPoint(sample) {
  const sum = (rows, name) => rows.reduce((total, row) => total + row[name], 0);
  return { ...sample, produce_p99_ms: sample.stages.produce.total?.p99_ms ?? null, fetch_p99_ms: sample.stages.fetch.total?.p99_ms ?? null,
    disk_read_bytes: sum(sample.disks, "read_bytes"), disk_write_bytes: sum(sample.disks, "write_bytes") };
}

function tiles(sample) {
  const dirs = sample.log_dirs;
  const worst = dirs.filter((dir) => dir.size_bytes).sort((a, b) => a.free_bytes / a.size_bytes - b.free_bytes / b.size_bytes)[0];
  const soonest = dirs.map((dir) => dir.full_in_s).filter((seconds) => seconds !== null).sort((a, b) => a - b)[0];
  return h("dl", { class: "panel tiles" },
    tile("In", rate(sample.in_bytes), `${count(sample.in_records)} records/s`),
    tile("Out", rate(sample.out_bytes), sample.out_bytes ? (sample.cold_share < 0.0005 ? "all from memory" : `${percent(sample.cold_share)} from disk`) : null),
    tile("Requests", `${count(sample.requests)} /s`, sample.errors ? `${count(sample.errors)} errors/s` : "no errors"),
    tile("Lag", count(sample.lag), counted(sample.group_count, "group")),
    tile("Partitions", count(sample.partition_count), counted(sample.topic_count, "topic")),
    tile("Connections", count(sample.connections), sample.deaths ? `${counted(sample.deaths, "restart")} of processes` : "all processes up"),
    tile("Free space", worst ? bytes(worst.free_bytes) : "–", soonest !== undefined ? full(soonest) : worst ? `of ${bytes(worst.size_bytes)}` : "log dir offline"));
}

function stages(found, names, nothing) {
  const shown = names.filter(([name]) => found[name]);
  if (!found.total) return empty("No requests", nothing);
  const most = Math.max(...shown.map(([name]) => found[name].p99_ms), 0.001);
  return h("div", { class: "pad stack" },
    h("div", { class: "stage muted small" }, h("span", {}, `${count(found.total.count / 10)}/s`), h("span"), h("span", { class: "n" }, "median · p99")),
    shown.map(([name, label]) => h("div", { class: "stage" }, h("span", {}, label), bar2(found[name].p99_ms / most), h("span", { class: "n" }, `${ms(found[name].p50_ms)} · ${ms(found[name].p99_ms)}`))),
    h("div", { class: "stage" }, h("b", {}, "total"), h("span"), h("b", { class: "n" }, `${ms(found.total.p50_ms)} · ${ms(found.total.p99_ms)}`)));
}

const bar2 = (share) => h("div", { class: "bar" }, h("i", { "width%": share * 100 }));
const line = (name, value, share, href) => h("div", { class: "line" }, h("span", { class: "name" }, href ? h("a", { href }, name) : name), h("span", { class: "soft" }, value), bar2(share));

function busiest(rows) {
  const busy = rows.filter((row) => row.in_bytes + row.out_bytes > 0).slice(0, 6);
  if (!busy.length) return empty("No traffic", "No topic is written or read now.");
  const most = busy[0].in_bytes + busy[0].out_bytes;
  return h("div", { class: "pad stack" }, busy.map((row) => line(row.topic, `${rate(row.in_bytes)} in, ${rate(row.out_bytes)} out`, (row.in_bytes + row.out_bytes) / most, `#/topics/${encodeURIComponent(row.topic)}`)));
}

export function lagging(lags) {
  const rows = Object.entries(lags).sort((a, b) => b[1] - a[1]).slice(0, 6); // names that are numbers come first in an object
  if (!rows.length) return empty("No groups", "Groups appear here when they commit offsets.");
  return h("div", { class: "pad stack" }, rows.map(([name, lag]) => line(name, count(lag), rows[0][1] ? lag / rows[0][1] : 0, `#/groups/${encodeURIComponent(name)}`)));
}

export function disks(sample) {
  const memory = sample.memory, limits = sample.limits;
  return h("div", { class: "pad stack" },
    sample.disks.map((disk) => h("div", { class: "line" }, h("span", {}, disk.name), h("span", { class: "soft" }, `${percent(disk.busy)} busy, ${ms(disk.await_ms)} wait`), bar(disk.busy))),
    sample.disks.filter((disk) => disk.used !== null).map((disk) => h("div", { class: "line" }, h("span", {}, `${disk.name} of its speed`),
      h("span", { class: "soft" }, `${rate(disk.write_bytes)} of ${rate(limits.disk_write)} written, ${rate(disk.read_bytes)} of ${rate(limits.disk_read)} read`), bar(disk.used))),
    sample.log_dirs.map((dir) => h("div", { class: "line" }, h("span", { class: "name mono", title: dir.path }, dir.path),
      h("span", { class: "soft" }, !dir.online ? tag("offline", "bad") : dir.size_bytes ? `${bytes(dir.free_bytes)} free` : "–"),
      dir.size_bytes ? bar(1 - dir.free_bytes / dir.size_bytes) : null)),
    h("div", { class: "line" }, h("span", {}, "page cache"), h("span", { class: "soft" }, `${bytes(memory.page_cache)} of ${bytes(memory.total)}`), bar2(memory.page_cache / memory.total)),
    h("div", { class: "line" }, h("span", {}, "to be written"), h("span", { class: "soft" }, bytes((memory.dirty ?? 0) + (memory.writeback ?? 0)))));
}

function network(sample) {
  return h("div", { class: "pad stack" }, sample.nics.filter((nic, number) => number === 0 || nic.speed_bytes || nic.in_bytes + nic.out_bytes > 0).slice(0, 8).map((nic) => {
    const used = nic.speed_bytes ? Math.max(nic.in_bytes, nic.out_bytes) / nic.speed_bytes : null;
    return h("div", { class: "line" }, h("span", { class: "name" }, nic.name, nic.speed_bytes && h("span", { class: "muted" }, ` ${count((nic.speed_bytes * 8) / 1e9)} Gbit/s`)),
      h("span", { class: "soft" }, `${rate(nic.in_bytes)} in, ${rate(nic.out_bytes)} out`), used !== null && bar(used));
  }));
}

function processes(sample) {
  return h("div", { class: "grid three pad" }, sample.processes.map((one) => h("div", { class: "line" }, h("span", {}, one.name),
    h("span", { class: "soft" }, `${percent(one.cpu)} CPU${one.polling ? ` (${percent(one.polling)} polling)` : ""}, ${bytes(one.memory_bytes)}`), bar(one.cpu - one.polling))));
}
