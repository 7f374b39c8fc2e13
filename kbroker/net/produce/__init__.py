"""Produce: scan, check, push into the append rings, answer.

May be called by the trunk of net, `net.local_answers` and `net.security`. Runs in each network
process.
"""
