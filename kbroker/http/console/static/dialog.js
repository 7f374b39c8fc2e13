// A dialog with a form: fields, an error line, and a button that waits for the answer.
import { h, fill } from "./dom.js";

export function ask({ title, text, content, button, danger, confirm, run }) {
  const error = h("p", { class: "error", role: "alert" });
  const typed = confirm && h("input", { type: "text", autocomplete: "off", spellcheck: false, oninput: () => { go.disabled = typed.value !== confirm; } });
  const go = h("button", { class: `button main ${danger ? "danger" : ""}`, type: "submit", disabled: Boolean(confirm) }, button);
  const form = h("form", { method: "dialog" }, h("h2", {}, title), text && h("p", { class: "soft" }, text), content,
    confirm && h("label", { class: "field" }, h("span", {}, "Type ", h("b", { class: "mono" }, confirm), " to confirm"), typed),
    error, h("div", { class: "buttons" }, h("button", { class: "button", type: "button", onclick: () => dialog.close() }, "Cancel"), go));
  const dialog = h("dialog", { "aria-label": title }, form);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    go.disabled = true; fill(error);
    try { await run(dialog); dialog.close(); } catch (failure) { fill(error, failure.message); go.disabled = false; }
  });
  dialog.addEventListener("close", () => dialog.remove());
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

export const MAX_NEW_PARTITIONS = 10000; // of one request to the broker: MAX_PARTITIONS_PER_REQUEST of topic_plan.py
export const field = (label, input) => h("label", { class: "field" }, label, input);
export const choice = (options, value) => h("select", {}, options.map(([key, text]) => h("option", { value: key, selected: key === value }, text)));

// "name=value" lines as an object; throws on a line that is none
export function settings(text) {
  const found = {};
  for (const line of text.split("\n").map((one) => one.trim()).filter(Boolean)) {
    const at = line.indexOf("=");
    if (at < 1) throw new Error(`${line}: expected name=value`);
    found[line.slice(0, at).trim()] = line.slice(at + 1).trim();
  }
  return found;
}
