"""What the processes share: memory layout, rings, wake-ups, messages and links."""
