"""The sizing model: what a workload needs, what this host has, and what ends first."""
