"""The controller and the coordinators: topic catalogue, config store, producer ids, groups,
transactions.

Called by `api`, `cli` and `supervisor`. Runs in the control process.
"""
