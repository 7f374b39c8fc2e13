"""Changes by the API, allowed by `kbroker.console.readonly=false`. The broker authorizes them as
for any client."""
