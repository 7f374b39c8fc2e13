// Requests to the API, and its streams.
export const session = { access: "open", user: null, csrf: null, readonly: true, version: "" };

const AGAIN_MS = 3000;

export class Failure extends Error {
  constructor(code, message, status) { super(message); this.code = code; this.status = status; }
}

async function answer(response) {
  let data;
  try { data = await response.json(); } catch { throw new Failure("answer", `The server answered with status ${response.status}.`, response.status); }
  if (!response.ok) {
    if (response.status === 401) dispatchEvent(new Event("signed-out"));
    throw new Failure(data.error, data.message, response.status);
  }
  return data;
}

async function reach(path, options) {
  try { return await fetch(path, options); } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Failure("away", "The broker cannot be reached; it may have stopped.", 0);
  }
}

export const path = (...parts) => "/api/" + parts.map(encodeURIComponent).join("/");

export async function get(where, parameters = {}, signal) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  return answer(await reach(query.size ? `${where}?${query}` : where, { signal }));
}

export async function post(where, body, again = true) {
  const headers = { "Content-Type": "application/json", "X-CSRF-Token": session.csrf ?? "" };
  try {
    return await answer(await reach(where, { method: "POST", headers, body: JSON.stringify(body) }));
  } catch (error) {
    if (error.code !== "csrf" || !again) throw error;
    await load(); // the http process was restarted meanwhile
    return post(where, body, false);
  }
}

export async function load() { return Object.assign(session, await get("/api/session")); }

// Events by name; onstate(true or false) says whether the stream is open. Gives the function that ends it. A stream that
// ends is opened again: by the browser, or here after an answer that is none (the broker starts, or a login has ended).
export function listen(where, parameters, handlers, onstate = () => {}) {
  const query = new URLSearchParams(Object.entries(parameters).filter(([, value]) => value !== "" && value !== null && value !== undefined));
  let source, wait;
  async function again() {
    const { user } = session;
    try { await load(); } catch { /* away still */ }
    if (user && !session.user) { session.user = user; dispatchEvent(new Event("signed-out")); } else if (source) open();
  }
  function open() {
    source = new EventSource(query.size ? `${where}?${query}` : where);
    source.onopen = () => onstate(true);
    source.onerror = () => {
      onstate(false);
      if (source?.readyState === EventSource.CLOSED) wait = setTimeout(again, AGAIN_MS);
    };
    for (const [name, handler] of Object.entries(handlers)) {
      source.addEventListener(name, (event) => handler(JSON.parse(event.data)));
    }
  }
  open();
  return () => { clearTimeout(wait); source?.close(); source = null; };
}
