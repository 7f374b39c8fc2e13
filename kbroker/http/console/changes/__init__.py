"""What the API changes, where `kbroker.console.readonly` is false: the broker decides, as for any client."""
