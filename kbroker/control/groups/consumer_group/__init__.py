"""Consumer groups of KIP-848: the broker assigns, members reconcile by their heartbeats.

May be called by the group coordinator. Runs in control.
"""
