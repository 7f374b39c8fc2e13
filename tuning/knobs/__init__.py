"""One row a knob: what it reads, what it wants of this host for this workload, and why."""
