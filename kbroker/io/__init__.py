"""Writing logs: the IO worker, and all files that only it may write."""
