"""Changes of metadata: checked, stored, sent to the other processes, then answered.

May be called by APIs and by coordinators. Runs in control.
"""
