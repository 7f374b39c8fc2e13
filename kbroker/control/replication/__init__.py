"""Leaders and in-sync sets: the controller's decisions about replicated partitions
(docs/adr/0008)."""
