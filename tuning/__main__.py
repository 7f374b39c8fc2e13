"""`python -m tuning`."""

from tuning.cli import app

app(prog_name="tuning")
