"""Usage: counts and times of requests, bytes of clients, quotas, the log of slow requests.

May be called by `net.process` and by the rooms that answer requests. Runs in each network process.
"""
