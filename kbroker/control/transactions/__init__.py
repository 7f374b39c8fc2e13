"""The transaction coordinator: a pure machine over `__transaction_state`, and the services that
execute its decisions.

May be called by the trunk of control and by APIs. Runs in control.
"""
