"""The kbroker command."""
