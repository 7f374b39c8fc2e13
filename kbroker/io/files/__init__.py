"""Kafka's files: segments, indexes, checkpoints, snapshots, and the log dir that holds them.

May be called by every room of io, commands and the supervisor. Runs in each IO worker; imports no
other room of io.
"""
