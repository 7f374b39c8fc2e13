"""kbroker's own settings for this host, and what a running one shows."""
