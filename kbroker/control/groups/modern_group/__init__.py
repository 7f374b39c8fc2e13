"""Shared by consumer, share and streams groups: Kafka's modern groups, with assignment by the
broker.

Their members use one heartbeat API, the group's state consists only of records, and epochs show
each member's progress.

May be called by the rooms of those groups. Runs in control.
"""
