"""The group coordinator: classic groups, consumer groups (KIP-848), share groups (KIP-932),
committed offsets.

Pure machines over `__consumer_offsets`, in Kafka's record schemas. `shard.py` is the entry point.

May be called by the trunk of control, `control.share`, `control.transactions` and APIs. Runs in
control.
"""
