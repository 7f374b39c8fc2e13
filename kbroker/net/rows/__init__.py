"""The tables of a network process, and the kernels that read and write one row of them.

May be called by every room of net; imports none of them. Runs in each network process.
"""
