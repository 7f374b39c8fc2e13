"""One file per API key: description, versions and handler. `registry.py` lists them all."""
