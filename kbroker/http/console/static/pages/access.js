// Quotas, users and ACLs, and the dialogs that change them.
import { path, post, session } from "../api.js";
import { empty, h, rate, tag, toast } from "../dom.js";
import { ask, choice, field } from "../dialog.js";
import { listing } from "./listing.js";

const LIMITS = {
  producer_byte_rate: { title: "produce", label: "Produce, bytes/s", show: rate },
  consumer_byte_rate: { title: "fetch", label: "Fetch, bytes/s", show: rate },
  request_percentage: { title: "request time", label: "Request time, %", show: (value) => `${value}%` },
  controller_mutation_rate: { title: "partition changes", label: "Partition changes/s", show: (value) => `${value}/s` },
  connection_creation_rate: { title: "new connections", label: "New connections/s", show: (value) => `${value}/s` },
};
const OF_ADDRESS = ["connection_creation_rate"];
const OF_CLIENT = Object.keys(LIMITS).filter((key) => !OF_ADDRESS.includes(key));
const KINDS = { user: "User", "client-id": "Client id", ip: "Address" };
const DEFAULT = "<default>"; // as Kafka's tools: a user may have the name default
const FOR = [["user", "A user"], ["client-id", "A client id"], ["user client-id", "A user's client id"], ["ip", "An address"]];

const button = (text, onclick, kind = "quiet") => h("button", { class: `button ${kind}`, type: "button", onclick }, text);
// The buttons of a row, where the console may change something.
const changing = (cell) => (session.readonly ? [] : [{ title: "", label: "Change", number: true, cell }]);
const adding = (text, onclick) => (session.readonly ? [] : [button(text, onclick, "main")]);
const input = (attributes) => h("input", { type: "text", spellcheck: false, autocomplete: "off", ...attributes });
const limit = (key, value) => (value === null ? "no limit" : (LIMITS[key]?.show ?? String)(value));
const named = (entity) => entity.map((part) => `${part.type} ${part.name ?? DEFAULT}`).join(", ");

export const quotas = (context) => listing(context, {
  title: "Quotas", where: path("quotas"), rows: "quotas", key: (row) => JSON.stringify(row.entity),
  actions: adding("New quota", () => newQuota(context)),
  nothing: () => empty("No quotas", "No client is limited. kbroker quotas set limits users, client ids and addresses."),
  columns: [
    { title: "For", cell: (row) => row.entity.map((part) => h("div", {}, h("span", { class: "muted" }, `${part.type} `), h("span", { class: "name" }, part.name ?? DEFAULT))) },
    { title: "Limits", cell: (row) => Object.entries(row.values).map(([key, value]) => h("div", {}, h("span", { class: "muted" }, `${LIMITS[key]?.title ?? key} `), limit(key, value))) },
    ...changing((row) => [button("Change", () => changeQuota(row, context)), " ", button("Remove", () => removeQuota(row, context))]),
  ],
});

// A field for each limit of an entity. Returns the fields, and a function that gives the changed ones: null for one that
// was emptied.
function limits(keys, values = {}) {
  const inputs = Object.fromEntries(keys.map((key) => [key, h("input", { type: "number", min: "0", step: "any", placeholder: "no limit", value: String(values[key] ?? "") })]));
  const before = Object.fromEntries(keys.map((key) => [key, inputs[key].value]));
  const changed = () => Object.fromEntries(keys.filter((key) => inputs[key].value !== before[key]).map((key) => [key, inputs[key].value === "" ? null : Number(inputs[key].value)]));
  return { element: h("div", { class: "fields" }, keys.map((key) => field(LIMITS[key].label, inputs[key]))), changed };
}

async function setQuotas(entity, values, text, context) {
  if (Object.keys(values).length === 0) throw new Error("Enter a limit, or change one.");
  await post(path("quotas"), { entity, values });
  toast(text);
  context.again();
}

function newQuota(context) {
  const kind = choice(FOR, "client-id");
  const names = Object.fromEntries(Object.entries(KINDS).map(([key, text]) => [key, field(text, input({ maxlength: "1000", placeholder: "default: all others" }))]));
  const client = limits(OF_CLIENT), address = limits(OF_ADDRESS);
  const chosen = () => kind.value.split(" ");
  kind.onchange = () => {
    for (const [key, element] of Object.entries(names)) element.hidden = !chosen().includes(key);
    client.element.hidden = kind.value === "ip";
    address.element.hidden = kind.value !== "ip";
  };
  kind.onchange();
  ask({ title: "New quota", text: "An empty name is the default of all that have no quota of their own.", button: "Set quota",
    content: [h("div", { class: "fields" }, field("For", kind), Object.values(names)), client.element, address.element],
    run: () => {
      const entity = Object.fromEntries(chosen().map((key) => [key, names[key].querySelector("input").value.trim() || null]));
      return setQuotas(entity, (kind.value === "ip" ? address : client).changed(), "The quota is set.", context);
    } });
}

const entityOf = (row) => Object.fromEntries(row.entity.map((part) => [part.type, part.name]));

function changeQuota(row, context) {
  const fields = limits(row.entity.some((part) => part.type === "ip") ? OF_ADDRESS : OF_CLIENT, row.values);
  ask({ title: `Quota of ${named(row.entity)}`, text: "An empty field removes its limit.", button: "Change quota", content: fields.element,
    run: () => setQuotas(entityOf(row), fields.changed(), "The quota is changed.", context) });
}

function removeQuota(row, context) {
  const keys = Object.keys(row.values);
  ask({ title: `Remove the quota of ${named(row.entity)}?`, text: "Its clients then have the default of their kind, or no limit.", button: "Remove quota", danger: true,
    run: () => setQuotas(entityOf(row), Object.fromEntries(keys.map((key) => [key, null])), "The quota is removed.", context) });
}

export const users = (context) => listing(context, {
  title: "Users", where: path("users"), rows: "users", key: (row) => row.name,
  actions: adding("New user", () => setPassword(null, context)),
  nothing: () => empty("No SCRAM users", "kbroker users add NAME creates one; so do kafka-configs.sh and any admin client."),
  columns: [
    { title: "User", cell: (row) => h("span", { class: "name" }, row.name) },
    { title: "Credentials", cell: (row) => row.credentials.map((one) => [tag(`${one.mechanism}, ${one.iterations} iterations`), " "]) },
    ...changing((row) => [button("Password", () => setPassword(row.name, context)), " ", button("Delete", () => deleteUser(row.name, context))]),
  ],
});

// user: null for a new one
function setPassword(user, context) {
  const name = input({ required: true, maxlength: "249" });
  const [password, again] = [0, 1].map(() => h("input", { type: "password", required: true, maxlength: "1000", autocomplete: "new-password" }));
  ask({ title: user === null ? "New user" : `Password of ${user}`, button: user === null ? "Create user" : "Set password",
    text: user === null ? "For SCRAM-SHA-256 and SCRAM-SHA-512." : "Clients that log in with the old password are refused from then on.",
    content: [user === null && field("Name", name), field("Password", password), field("Password again", again)],
    run: async () => {
      if (password.value !== again.value) throw new Error("The passwords differ.");
      const called = user ?? name.value.trim();
      await post(path("users"), { name: called, password: password.value });
      toast(user === null ? `User ${called} is created.` : `The password of ${called} is set.`);
      context.again();
    } });
}

function deleteUser(name, context) {
  ask({ title: `Delete ${name}?`, text: "Its clients cannot log in any more. Its ACLs and quotas stay.", button: "Delete user", danger: true, confirm: name,
    run: async () => {
      await post(path("users", name, "delete"), { confirm: name });
      toast(`User ${name} is deleted.`);
      context.again();
    } });
}

const RESOURCES = ["topic", "group", "cluster", "transactional id", "delegation token", "user"];
const OPERATIONS = {
  topic: ["read", "write", "create", "delete", "alter", "describe", "describe configs", "alter configs", "all"],
  group: ["read", "delete", "describe", "describe configs", "alter configs", "all"],
  cluster: ["create", "alter", "describe", "cluster action", "describe configs", "alter configs", "idempotent write", "all"],
  "transactional id": ["write", "describe", "two phase commit", "all"],
  "delegation token": ["describe", "all"],
  user: ["create tokens", "describe tokens", "all"],
};
const same = (words) => words.map((word) => [word, word]);

export function acls(context) {
  const actions = adding("New ACL", () => newAcl(context));
  return listing(context, {
    title: "ACLs", where: path("acls"), rows: "acls", key: (row) => JSON.stringify(Object.values(row)), actions,
    extra: (found) => { for (const one of actions) one.hidden = !found.enabled; return null; },
    nothing: (found) => (found.enabled ? empty("No ACLs", "The authorizer is on and has no rules; kbroker acls add creates one.") : empty("No authorizer", "Access control is off: every client may do everything that its listener allows.")),
    columns: [
      { title: "Principal", cell: (row) => h("span", { class: "name" }, row.principal) },
      { title: "Permission", cell: (row) => tag(row.permission, row.permission === "deny" ? "bad" : "good") },
      { title: "Operation", cell: (row) => row.operation },
      { title: "Resource", wrap: true, cell: (row) => [h("span", { class: "muted" }, `${row.resource} `), row.name, row.pattern === "prefixed" && h("span", { class: "muted" }, " (prefix)")] },
      { title: "Host", cell: (row) => row.host },
      ...changing((row) => button("Delete", () => deleteAcl(row, context))),
    ],
  });
}

function newAcl(context) {
  const principal = input({ required: true, maxlength: "1000", placeholder: "User:anna" });
  const permission = choice(same(["allow", "deny"]), "allow");
  const resource = choice(same(RESOURCES), "topic");
  const operation = h("div");
  const name = input({ required: true, maxlength: "1000", placeholder: "orders; * for all" });
  const pattern = choice([["literal", "this name"], ["prefixed", "names that begin so"]], "literal");
  const host = input({ required: true, value: "*", maxlength: "249" });
  resource.onchange = () => {
    operation.replaceChildren(field("Operation", choice(same(OPERATIONS[resource.value]), OPERATIONS[resource.value][0])));
    name.disabled = resource.value === "cluster";
    if (name.disabled) name.value = "kafka-cluster"; else if (name.value === "kafka-cluster") name.value = "";
  };
  resource.onchange();
  ask({ title: "New ACL", button: "Create ACL", text: "In force at once. A resource with an ACL is closed to all that no ACL allows.",
    content: [h("div", { class: "fields" }, field("Principal", principal), field("Permission", permission)),
      h("div", { class: "fields" }, field("Resource", resource), operation),
      h("div", { class: "fields" }, field("Name", name), field("Applies to", pattern)), field("From host", host)],
    run: async () => {
      await post(path("acls"), { principal: principal.value.trim(), permission: permission.value, resource: resource.value, operation: operation.querySelector("select").value,
        name: name.value.trim(), pattern: pattern.value, host: host.value.trim() });
      toast("The ACL is created.");
      context.again();
    } });
}

function deleteAcl(row, context) {
  ask({ title: "Delete this ACL?", button: "Delete ACL", danger: true,
    text: `${row.principal} from ${row.host}: ${row.permission} ${row.operation} on ${row.resource} ${row.name}${row.pattern === "prefixed" ? " (prefix)" : ""}. ${row.permission === "allow" ? "Its clients lose this permission at once." : "What it denies may be allowed at once."}`,
    run: async () => {
      await post(path("acls", "delete"), row);
      toast("The ACL is deleted.");
      context.again();
    } });
}
