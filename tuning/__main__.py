"""`python -m tuning` is `kbroker tune`."""

from tuning.cli import app

app(prog_name="kbroker tune")
