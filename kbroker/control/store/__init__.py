"""The controller's durable state: a SQLite database with copies in several log dirs and a digest of
its rows.

May be called by every room of control. Runs in control; the supervisor and commands open it
while no control runs.
"""
