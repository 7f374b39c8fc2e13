"""The layout of a log directory: file names, small files, segments, look-up by offset and time.

Only `kbroker.io` writes segments and their indexes. Called by `api`, `cleaner`, `cli`, `control`,
`http`, `io`, `net` and `supervisor`. Runs in every process.
"""
