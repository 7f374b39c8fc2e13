"""TLS and SASL: contexts, relays, and the logins of connections.

May be called by the trunk of net, `net.connections`, `net.fetch`, APIs and the supervisor. Runs in
each network process.
"""
