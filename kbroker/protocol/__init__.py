"""The wire format: messages by Kafka's definitions, frames, record batches, compression, error
codes.

Called by `api`, `cleaner`, `cli`, `config`, `control`, `http`, `io`, `ipc`, `kernels`, `log`,
`metrics`, `net` and `supervisor`. Runs in every process.
"""
