"""Backups of a running broker.

`repository.py` keeps files by their checksums, `point.py` says what belongs to one point in time, `cut.py` asks the
broker for that point, `taking.py` copies up to it, `restoring.py` makes a log dir of it.
"""
