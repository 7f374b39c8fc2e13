"""The audit log: who did what from where, and whether it was allowed.

Runs in control; network processes send their events. May be called by the trunk of control and by
APIs.
"""
