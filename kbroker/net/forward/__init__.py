"""Forwarding requests to the controller in blocks, and passing its answers on.

May be called by the pump and by `net.process`. Runs in each network process.
"""
