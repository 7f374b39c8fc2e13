"""Changes by the API, if `kbroker.console.readonly` is false: the broker authorizes them, as for
any client."""
