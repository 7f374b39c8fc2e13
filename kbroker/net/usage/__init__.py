"""Usage: counts and times of requests, bytes of clients, quotas, the log of slow requests.

May be called by the trunk of net, `net.connections`, `net.fetch`, `net.forward` and `net.produce`.
Runs in each network process.
"""
