"""The purpose for which a command locks a place for backups."""

from enum import Enum, auto


class Purpose(Enum):
    """The purpose of a command. One backup or pruning runs at a time; while it runs, backups can be
    listed. During a backup they can also be verified and restored, during pruning they cannot."""

    BACKUP = auto()
    LIST = auto()
    READ = auto()
    """Verify or restore."""
    PRUNE = auto()
