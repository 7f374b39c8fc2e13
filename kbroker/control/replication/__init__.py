"""Who leads, who is in sync: control's decisions about partitions of several replicas (docs/adr/0008)."""
