"""What a client needs to be allowed for each API, as in Kafka's table of operations.

What is not allowed is taken out of a request before its handler sees it, and answered here.

May be imported by `api.registry` alone; runs in control. Without an authorizer nothing of it is called.
"""
