"""One row per knob: what it reads, the value it proposes for this host and workload, and why."""
