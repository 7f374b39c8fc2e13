"""Handling of several log dirs: their failures, moves between them, their checkpoints, open files
and reserved blocks.

May be called by the trunk of io. Runs in each IO worker.
"""
