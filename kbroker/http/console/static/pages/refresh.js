// A page that follows the stream of samples. While it cannot, it keeps what it shows and says so.
import { listen, path } from "../api.js";
import { add, h, marked, update } from "../dom.js";

export const stale = (notice, error) => (error.name === "AbortError" ? null : update(notice, h("div", { class: "notice bad", role: "alert" }, `Not up to date. ${error.message}`)));
// Not while nobody sees it, in a dialog, or while a reader has marked text.
const mayRedraw = (element) => !document.hidden && !document.querySelector("dialog[open]") && !marked(element);
// Samples are a second apart, and come a little early at times.
const SLACK_MS = 300;

// A stream of the page, or none while it is hidden: a browser has few connections for all pages of a server. open: starts
// the stream and gives the function that ends it.
export function whileSeen(onleave, open) {
  let close = null;
  function turn() {
    close?.();
    close = document.hidden ? null : open();
  }
  turn();
  document.addEventListener("visibilitychange", turn);
  onleave(() => { document.removeEventListener("visibilitychange", turn); close?.(); });
}

// Calls draw with samples, once in `every` ms at most; without a stream as often as the page tries to open it.
export function follow({ onleave, signal }, element, draw, every) {
  if (signal.aborted) return; // the reader has left meanwhile
  let due = performance.now() + every - SLACK_MS, busy = false;
  async function tick() {
    if (busy || performance.now() < due || !mayRedraw(element)) return;
    busy = true;
    try { await draw(); } finally { busy = false; due = performance.now() + every - SLACK_MS; }
  }
  whileSeen(onleave, () => listen(path("events"), {}, { sample: tick }, (open) => { if (!open) tick(); }));
}

export async function refreshed(context, draw, every = 3000) {
  const notice = h("div"), body = h("div", { class: "flow" });
  add(body, [await draw()]);
  follow(context, body, async () => {
    try { update(body, await draw()); update(notice); } catch (error) { stale(notice, error); }
  }, every);
  return h("div", { class: "flow" }, notice, body);
}
