"""The controller's durable state: a SQLite database with copies in several log dirs and a digest of
its rows.

May be called by every room of control, APIs, commands and the supervisor. Runs in control; the
supervisor and commands open it while no control runs.
"""
