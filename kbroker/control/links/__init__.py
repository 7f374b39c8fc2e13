"""Control's links to the other processes: connected processes, appends to internal topics, reading
logs.

May be called by the trunk of control, `control.changes`, `control.coordinator`, `control.groups`,
`control.replication`, `control.transactions` and APIs. Runs in control.
"""
