"""Connections of clients: how they come from the acceptor, their frames, and the bytes of answers
that wait for a socket.

May be called by the trunk of net, `net.produce`, `net.fetch`, `net.forward`, `net.security` and
`net.usage`. Runs in each network process.
"""
