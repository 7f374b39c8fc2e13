"""Writing logs: the IO worker and everything that only it may touch."""
