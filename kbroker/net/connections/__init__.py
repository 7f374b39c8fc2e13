"""Connections of clients: how they come from the acceptor, their frames, and the bytes of answers
that wait for a socket.

May be called by `net.process` and by the rooms that answer requests. Runs in each network process.
"""
