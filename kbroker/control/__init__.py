"""The controller and the coordinators: topic catalogue, config store, producer ids,
coordinators."""
