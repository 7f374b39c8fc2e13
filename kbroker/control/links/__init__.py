"""Control's links to the other processes: connected processes, appends to internal topics, reading
logs.

May be called by every room of control but `metadata`. Runs in control.
"""
