"""Proposals of kbroker's settings for this host, and findings from a running broker."""
