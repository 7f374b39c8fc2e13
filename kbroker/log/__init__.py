"""What a log directory looks like: file names, small files, segments, look-up by offset and time.

Segments and their indexes are written by `kbroker.io` alone.
"""
