"""The permissions that each API needs, as in Kafka's table of operations.

Forbidden parts are removed from a request before its handler sees it, and answered here.

May be imported by `api.registry` alone; runs in control. Without an authorizer nothing of it is
called.
"""
