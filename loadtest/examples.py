"""The examples below the help of a command, for the load test, the tuner and kbroker."""


def examples(*lines: str) -> str:
    """Command lines to copy, and "# ..." lines that explain them."""
    shown = [
        f"  [dim]{_escaped(line)}[/dim]" if line.startswith("#") else f"  {_escaped(line)}" for line in lines
    ]
    return "[bold]Examples[/bold]\n" + "\n".join(shown)


def _escaped(line: str) -> str:
    return line.replace("[", "\\[")
