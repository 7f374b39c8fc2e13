"""Forwarding requests to the controller in blocks, and passing its answers on.

May be called by the trunk of net and by `net.security`. Runs in each network process.
"""
