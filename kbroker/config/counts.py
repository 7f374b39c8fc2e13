"""Numbers of things, for people. Pure."""


def counted(count: int, noun: str, plural: str = "") -> str:
    """`1 group`, `2 groups`, `1,000 groups`. plural: if it is not the noun with an s."""
    return f"{count:,} {noun if count == 1 else plural or noun + 's'}"
