"""docs/models.md, as far as tests compare it with what they find."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def documented_states(model: str) -> int:
    """How many states the page says that a model has. model: the name of its module."""
    (row,) = [line for line in PAGE.read_text().splitlines() if line.startswith(f"| `{model}.py` |")]
    return int(row.split("|")[-2].replace(",", ""))
