"""The sizing model: demand of a workload, supply of this host, and the resource that ends first."""
