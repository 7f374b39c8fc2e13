"""Names of subjects with their contexts: `:.context:subject`, or a plain subject of the context
`.`."""

DEFAULT_CONTEXT = "."
MAX_CHARACTERS = 1000


def context_of(subject: str) -> str:
    """The context of a name."""
    return split(subject)[0]


def split(subject: str) -> tuple[str, str]:
    """(context, plain subject)."""
    if subject.startswith(":."):
        context, colon, rest = subject[1:].partition(":")
        return (context, rest) if colon else (context, "")
    return DEFAULT_CONTEXT, subject


def qualified(context: str, subject: str) -> str:
    """A subject's name with the context of the path, unless the name has a context."""
    if context in ("", DEFAULT_CONTEXT) or subject.startswith(":."):
        default = f":{DEFAULT_CONTEXT}:"
        return subject.removeprefix(default)
    return f":{context}:{subject}"


def context_prefix(context: str) -> str:
    """The name of a context's settings; empty for the default context."""
    return "" if context == DEFAULT_CONTEXT else f":{context}:"


def is_allowed(subject: str) -> bool:
    """Whether a subject may have this name."""
    return 0 < len(subject) <= MAX_CHARACTERS and subject.isprintable() and subject != "__GLOBAL"
