"""Accepting: listening sockets, connection limits and rates; passes each connection to a network
process.

May be called by the supervisor, the trunk of net and `net.fetch`. The acceptor runs in the parent;
the modules that send it its settings run in the first network process.
"""
