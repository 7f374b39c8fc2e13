"""One file per API key: what it is, its versions, its handler. `registry.py` lists them all."""
