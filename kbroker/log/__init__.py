"""The layout of a log directory: file names, small files, segments, look-up by offset and time.

Segments and their indexes are written by `kbroker.io` alone.
"""
