import { get, path } from "../api.js";
import { bar, broken, bytes, counted, empty, full, h, head, panel, percent, table, tag } from "../dom.js";
import { refreshed } from "./refresh.js";

const EVERY_MS = 10000;

export const logDirs = (context) => refreshed(context, async () => {
  const found = await get(path("log-dirs"), {}, context.signal);
  return [head("Log dirs"), found.log_dirs.map((dir) => {
    const largest = dir.largest.filter((row) => row.bytes > 0 || row.moving);
    const used = dir.size_bytes ? 1 - dir.free_bytes / dir.size_bytes : null;
    return panel(h("span", { class: "mono" }, dir.path), [
      h("div", { class: "pad stack" }, used !== null && bar(used),
        h("div", { class: "soft" }, !dir.online && [tag("offline", "bad"), " ", dir.error && h("span", { class: "mono small" }, dir.error, " ")],
          used === null ? "The file system cannot be read." : `${percent(used)} of ${bytes(dir.size_bytes)} used, ${bytes(dir.free_bytes)} free`,
          dir.full_in_s !== null && [", ", h("b", {}, full(dir.full_in_s)), dir.full_in_s > 0 && " if it fills as it does now"])),
      largest.length ? table([
        { title: "Largest logs", cell: (row) => [h("a", { class: "name", href: `#/topics/${encodeURIComponent(row.topic)}` }, broken(row.topic)), h("span", { class: "muted" }, ` ${row.partition}`), row.moving && [" ", tag("moving here", "warn")]] },
        { title: "Size", number: true, cell: (row) => bytes(row.bytes) },
        { title: "", label: "Size beside the largest", cell: (row) => h("div", { class: "bar" }, h("i", { "width%": (row.bytes / Math.max(1, largest[0].bytes)) * 100 })) },
      ], largest) : !dir.online ? empty("Offline", "The broker does not use this log dir until it is started again; its log has the reason.") : dir.partition_count ? empty("No records", "All logs here are empty.") : empty("No logs", "No partition is stored here.")], h("span", { class: "key" }, `node ${dir.node} · ${counted(dir.partition_count, "log")} · ${bytes(dir.partition_bytes)}`));
  })];
}, EVERY_MS);
