"""Communication between the processes: shared memory and its layout, rings, wake-ups, messages and
links."""
