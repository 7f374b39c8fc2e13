import { path } from "../api.js";
import { broken, bytes, count, counted, duration, empty, h, panel, rate, table, tag } from "../dom.js";
import { listing } from "./listing.js";

const none = () => h("span", { class: "zero" }, "–");

export const transactions = (context) => listing(context, {
  title: "Transactions", where: path("transactions"), rows: "transactions", search: true, key: (row) => row.transactional_id,
  nothing: () => empty("No transactions", "Transactional producers appear here with their last transaction."),
  columns: [
    { title: "Transactional id", wrap: true, cell: (row) => h("span", { class: "name" }, broken(row.transactional_id)) },
    { title: "State", cell: (row) => tag(row.state, { Ongoing: "warn dot", CompleteCommit: "good", CompleteAbort: "" }[row.state] ?? "") },
    { title: "Open for", number: true, cell: (row) => (row.open_s !== null && row.state === "Ongoing" ? duration(row.open_s) : none()) },
    { title: "Timeout", number: true, cell: (row) => (row.timeout_ms === null ? none() : duration(row.timeout_ms / 1000)) },
    { title: "Producer", number: true, cell: (row) => `${row.producer_id} / ${row.producer_epoch ?? "–"}` },
    { title: "Partitions", wrap: true, cell: (row) => (row.partitions.length ? [row.partitions.slice(0, 12).map((one) => `${one.topic}-${one.partition}`).join(", "), row.partitions.length > 12 && ` and ${row.partitions.length - 12} more`] : none()) },
  ],
});

const leftOut = (found, search) => (found.left_out ? `${search ? "The search covers" : "The list has"} the clients with the most traffic; ${counted(found.left_out, "other client")} with ${counted(found.left_out_connections, "connection")} ${found.left_out === 1 ? "is" : "are"} left out.` : null);
const queued = (rows) => (rows.length === 0 ? null : panel("Bytes waiting in sockets", table([
  { title: "Address", cell: (row) => h("span", { class: "name mono" }, row.address) },
  { title: "Connections", number: true, cell: (row) => row.connections },
  { title: "Not yet received by the client", number: true, cell: (row) => (row.unsent_bytes ? bytes(row.unsent_bytes) : none()) },
  { title: "Not yet read by the broker", number: true, cell: (row) => (row.unread_bytes ? bytes(row.unread_bytes) : none()) },
], rows, { key: (row) => row.address })));

export const clients = (context) => listing(context, {
  title: "Clients", where: path("clients"), rows: "clients", search: true,
  key: (row) => JSON.stringify([row.client_id, row.address, row.listener, row.software_name, row.software_version, row.principal]),
  nothing: () => empty("No clients", "No client is connected to a listener."),
  extra: (found, search) => [
    panel(null, h("dl", { class: "tiles" }, found.listeners.map((row) => h("div", { class: "tile" }, h("dt", {}, `${row.listener} · port ${row.port}`), h("dd", {}, count(row.connections), h("small", {}, row.connections === 1 ? "connection" : "connections")))))),
    queued(found.queued),
    leftOut(found, search) && h("p", { class: "muted" }, leftOut(found, search)),
  ],
  columns: [
    { title: "Client id", wrap: true, cell: (row) => (row.client_id ? h("span", { class: "name" }, broken(row.client_id)) : h("span", { class: "muted" }, "no client id")) },
    { title: "Address", cell: (row) => [h("span", { class: "mono" }, row.address), h("div", { class: "muted" }, row.listener, row.tls && [" ", tag("TLS", "good")])] },
    { title: "Software", wrap: true, cell: (row) => (row.software_name ? [broken(row.software_name), " ", h("span", { class: "muted" }, row.software_version)] : h("span", { class: "muted" }, "not named")) },
    { title: "Principal", wrap: true, cell: (row) => broken(row.principal) },
    { title: "Connections", number: true, cell: (row) => row.connections },
    { title: "From client", number: true, cell: (row) => (row.in_bytes_s ? rate(row.in_bytes_s) : none()) },
    { title: "To client", number: true, cell: (row) => (row.out_bytes_s ? rate(row.out_bytes_s) : none()) },
  ],
});
