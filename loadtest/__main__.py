"""`python -m loadtest`."""

from loadtest.cli import app

app(prog_name="loadtest")
