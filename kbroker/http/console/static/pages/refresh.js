// A page that draws itself again every few seconds. While it cannot, it keeps what it shows and says so.
import { fill, h, marked } from "../dom.js";

export const stale = (notice, error) => (error.name === "AbortError" ? null : fill(notice, h("div", { class: "notice bad", role: "alert" }, `Not up to date. ${error.message}`)));
// Not while nobody sees it, in a dialog, or while a reader has marked text.
export const mayRedraw = (element) => !document.hidden && !document.querySelector("dialog[open]") && !marked(element);

export async function refreshed({ onleave }, draw, every = 3000) {
  const notice = h("div"), body = h("div", { class: "flow" });
  const again = async () => { fill(body, await draw()); fill(notice); };
  await again();
  const timer = setInterval(() => { if (mayRedraw(body)) again().catch((error) => stale(notice, error)); }, every);
  onleave(() => clearInterval(timer));
  return h("div", { class: "flow" }, notice, body);
}
