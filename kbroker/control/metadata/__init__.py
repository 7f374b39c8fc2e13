"""What the controller knows of topics, placement, features and ids, and the rules for it. No change is made here.

May be called by every room of control. Runs in control.
"""
