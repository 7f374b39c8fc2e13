"""Fetch: sessions, reading, waiting, and sending file ranges.

May be called by the pump and by `net.process`. Runs in each network process, its senders in
threads.
"""
