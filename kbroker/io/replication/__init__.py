"""Local replicas as an IO worker sees them: partitions that it leads, and partitions that it copies (docs/adr/0008)."""
