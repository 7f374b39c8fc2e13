"""Backups of a running broker.

`repository.py` keeps files by their checksums, `point.py` lists the files of one point in time,
`cut.py` gets that point from the broker, `taking.py` copies up to it, `restoring.py` turns it into
a log dir.
"""
