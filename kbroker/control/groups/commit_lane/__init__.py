"""The fast path of OffsetCommit and Heartbeat: blocks of requests that repeat themselves, in one
kernel call.

May be called by the group coordinator. Runs in control.
"""
