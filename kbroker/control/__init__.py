"""The one place of cluster-like state: topic catalogue, config store, producer ids,
coordinators."""
