import { post } from "../api.js";
import { fill, h } from "../dom.js";
import { field } from "../dialog.js";

export function login(done) {
  const user = h("input", { type: "text", autocomplete: "username", required: true });
  const password = h("input", { type: "password", autocomplete: "current-password", required: true });
  const error = h("p", { class: "small", role: "alert" });
  const button = h("button", { class: "button main", type: "submit" }, "Log in");
  const form = h("form", {}, h("h1", {}, "kbroker"), h("p", { class: "muted" }, "Log in as a user of the broker (SCRAM)."),
    field("User", user), field("Password", password), error, button);
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    button.disabled = true; fill(error);
    try { await post("/api/login", { user: user.value, password: password.value }); await done(); } catch (failure) {
      fill(error, h("span", { class: "tag bad" }, failure.message));
      password.value = "";
    }
    button.disabled = false;
  });
  return h("div", { class: "panel login" }, form);
}
