"""Streams groups (KIP-1071): tasks instead of partitions, one topology a group, internal topics
made by the broker.

As the other rooms of groups: decided by pure functions, changed only by replay.

May be called by the group coordinator and by StreamsGroupHeartbeat. Runs in control.
"""
