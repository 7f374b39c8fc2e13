"""`python -m loadtest` is `kbroker loadtest`."""

from loadtest.cli import app

app(prog_name="kbroker loadtest")
