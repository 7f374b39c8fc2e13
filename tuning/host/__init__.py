"""Facts of this host, read from /proc and /sys; each value may be missing, as in a container."""
