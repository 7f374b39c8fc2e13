"""The coordinator runtime: machines decide, the runtime appends, replays and answers.

May be called by the trunk of control, `control.groups`, `control.transactions`, `control.share`,
`control.replication` and APIs. Runs in control.
"""
