"""The coordinator runtime: machines decide, the runtime appends, replays and answers."""
