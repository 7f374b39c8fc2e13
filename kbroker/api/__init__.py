"""One file per API key: description, versions and handler. `registry.py` lists them all.

Called by no other package: supervisor begins control and network processes at `control_process` and
`network_process`. Handlers run in control; kernels answer frequent requests in network processes.
"""
