"""Fetch: sessions, reading, waiting, and sending file ranges.

May be called by the trunk of net. Runs in each network process, its senders in threads.
"""
