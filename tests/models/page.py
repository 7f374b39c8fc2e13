"""docs/models.md, as far as tests compare it with what they find."""

from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "models.md"


def documented_states(model: str) -> int:
    """How many states the page says that a model has. model: the name of its module."""
    return _count(f"{model}.py")


def documented_runs(test: str) -> int:
    """How many runs the page says that a test records. test: the name of its module."""
    return _count(f"{test}.py")


def _count(name: str) -> int:
    (row,) = [cells for cells in rows() if cells[0] == f"`{name}`"]
    return int(row[-1].replace(",", ""))


def rows() -> list[list[str]]:
    """The cells of all rows of the page's tables."""
    lines = [line for line in PAGE.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
