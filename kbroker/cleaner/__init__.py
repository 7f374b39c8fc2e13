"""Compacts logs: writes `.cleaned` files, which IO workers swap in.

Called by no other package: supervisor begins the process cleaner at `worker`. Runs in it.
"""
