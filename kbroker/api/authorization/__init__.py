"""The permissions that each API needs, as in Kafka's table of operations.

Forbidden parts are removed from a request before its handler sees it, and answered here.

Only `api.registry` imports it; runs in control. Without an authorizer it is not called.
"""
