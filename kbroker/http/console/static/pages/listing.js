// What all lists have: a search, pages, an order in the address, and their states.
import { get } from "../api.js";
import { empty, failed, fill, h, head, loading, panel, table, update } from "../dom.js";
import { pager } from "./paging.js";
import { follow, stale } from "./refresh.js";

const LIMIT = 100, EVERY_MS = 5000;

// columns, key: of dom.table; rows: member of the answer; nothing: what an empty list says
export async function listing(context, { title, where, rows, columns, go, key, nothing, search, order, more, parameters = {}, actions = [], extra }) {
  const state = { search: context.query.get("search") ?? "", sort: context.query.get("sort") ?? order, offset: 0 };
  const box = h("div", {}, loading());
  const total = h("span", { class: "end" });
  const noun = /^[A-Z]{2}/.test(title) ? title : title.toLowerCase();
  const aside = h("div"), notice = h("div");
  const options = () => ({ ...parameters, ...(more?.values() ?? {}) });
  let control;

  async function draw() {
    control?.abort();
    control = new AbortController();
    try {
      const found = await get(where, { ...options(), limit: LIMIT, offset: state.offset || "", ...(search ? { search: state.search } : {}), ...(order ? { sort: state.sort } : {}) }, control.signal);
      update(total, `${found.total} ${found.total === 1 ? noun.replace(/s$/, "") : noun}`);
      if (extra) update(aside, extra(found, state.search));
      const list = found[rows];
      if (list.length === 0 && state.offset > 0) { state.offset = 0; await draw(); return; } // the last row of the last page is gone
      update(notice);
      update(box, list.length === 0 ? (state.search ? empty("Nothing found", `Nothing here contains “${state.search}”.`) : nothing(found))
        : table(columns, list, { go, key, order: state.sort, onsort: order && ((sort) => { state.sort = sort; state.offset = 0; draw(); }) }), pager(found.offset, LIMIT, found.total, (offset) => { state.offset = offset; draw(); }));
    } catch (error) {
      if (box.querySelector("table")) stale(notice, error);
      else if (error.name !== "AbortError") fill(box, failed(error, draw));
    }
  }

  let wait;
  const input = search && h("input", { type: "search", placeholder: "Search   /", "aria-label": `Search ${noun}`, value: state.search,
    oninput: () => { clearTimeout(wait); wait = setTimeout(() => { state.search = input.value.trim(); state.offset = 0; draw(); }, 150); } });
  const controls = more?.build(() => { state.offset = 0; draw(); });
  context.onleave(() => { clearTimeout(wait); control?.abort(); });
  await draw();
  follow(context, box, draw, EVERY_MS);
  return h("div", { class: "flow" }, head(title, { actions }), notice, aside, panel(null, [h("div", { class: "tools" }, input, controls, total), box]));
}
