"""Accepting: listening sockets, connection limits and rates; passes each connection to a network
process.

May be called by the supervisor and by the trunk of net. The acceptor runs in the parent; the
modules that send it its settings run in the first network process.
"""
