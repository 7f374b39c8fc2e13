"""The controller's metadata: topics, placement, features and ids, with their rules. No change is
made here.

May be called by every room of control, APIs, commands and the supervisor. Runs in control.
"""
