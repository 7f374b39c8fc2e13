"""Changes of metadata: checked, stored, sent to the other processes, then answered.

May be called by the trunk of control, `control.coordinator`, `control.replication`,
`control.share`, APIs and commands. Runs in control.
"""
