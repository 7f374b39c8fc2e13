"""TLS and SASL: contexts, relays, and the logins of connections.

May be called by `net.process`, `net.dispatch` and `net.upkeep`. Runs in each network process.
"""
