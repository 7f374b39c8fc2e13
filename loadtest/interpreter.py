"""The command that runs a module in a child process."""

import sys

RUN_MODULE = (sys.executable, "-P", "-m")
"""-P: not a module of the current folder, where a user's loadtest.py may be."""
