"""Sockets, frames, the produce and the fetch path; requests for control are forwarded.

Called by `api` and `supervisor`. Runs in each network process; `accept` in the acceptor.
"""
