"""What every coordinator runs in: machines decide, the runtime appends, replays and answers."""
