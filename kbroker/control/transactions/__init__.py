"""The transaction coordinator: a pure machine over `__transaction_state`, and what carries out its
decisions.

May be called by the trunk of control and by APIs. Runs in control.
"""
