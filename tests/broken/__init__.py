"""A broker that is broken on purpose: a layer before a real one, and only in tests. See
proxy.py."""
