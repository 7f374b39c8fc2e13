"""Sockets, frames, the produce and the fetch path; forwards the requests that control serves.

Called by `api` and `supervisor`. Runs in each network process; `accept` in the acceptor.
"""
