"""Requests that a network process answers by itself: from shared memory, and from answers that it
has cached.

May be called by the trunk of net and by `net.forward`. Runs in each network process.
"""
