"""Compiled kernels: numba functions over raw memory, shared by the network and IO processes."""
