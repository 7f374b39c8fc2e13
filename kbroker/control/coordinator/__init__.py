"""The coordinator runtime: machines decide, the runtime appends, replays and answers.

May be called by the coordinators of groups, transactions and shares, by `control.replication` and
by APIs. Runs in control.
"""
