"""The fast path of OffsetCommit and Heartbeat: blocks of repeated requests, in one kernel call.

May be called by the group coordinator. Runs in control.
"""
