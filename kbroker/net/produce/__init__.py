"""Produce: scan, check, push into the append rings, answer.

May be called by the pump and by `net.process`. Runs in each network process.
"""
