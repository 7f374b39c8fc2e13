"""Values that settings only refer to: `${file:PATH:KEY}`, `${directory:PATH:FILE}`, `${env:NAME}`
(KIP-297, KIP-421).

As in Apache Kafka: `config.providers` names the providers, `config.providers.NAME.class` says which
one each is, and `config.providers.NAME.param.*` what it may read. Unlike there, a reference to a
missing value refuses the start instead of being kept as text, which would be used as a password.
"""

import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Final

from kbroker.config import properties
from kbroker.config.plain_file import open_plain
from kbroker.config.setting import ConfigError

PROVIDERS: Final = "config.providers"
PACKAGE: Final = "org.apache.kafka.common.config.provider."
_REFERENCE: Final = re.compile(r"\$\{([^}]*)\}?")
"""A reference. It also matches one without an end, so that a text is read only once."""
MAX_BYTES: Final = 1 << 20

Provider = Callable[[str, str], str]
"""The value of a path and a key. Raises ConfigError."""


def is_provider_key(name: str) -> bool:
    """Whether a setting is one of a provider."""
    return name.startswith(f"{PROVIDERS}.")


def resolved(pairs: Mapping[str, str]) -> dict[str, str]:
    """The settings with all references resolved. Raises ConfigError with one line for each problem;
    no line shows a value."""
    problems: list[str] = []
    providers = dict(_providers(pairs, problems))
    found = dict(pairs)
    for name, text in pairs.items():
        if name == PROVIDERS or is_provider_key(name):
            continue

        def value(reference: re.Match[str], name: str = name) -> str:
            kind, *rest = reference[1].split(":", 2)  # NAME:KEY or NAME:PATH:KEY
            provider = providers.get(kind) if rest and reference[0].endswith("}") else None
            if provider is None:
                return reference[0]  # as in Apache Kafka: it is not a reference
            try:
                return provider(rest[0] if len(rest) > 1 else "", rest[-1])
            except ConfigError as error:
                problems.append(f"{name}: {reference[0]}: {error}")
                return ""

        found[name] = _REFERENCE.sub(value, text)
    if problems:
        raise ConfigError("\n".join(problems))
    return found


def _providers(pairs: Mapping[str, str], problems: list[str]) -> Iterator[tuple[str, Provider]]:
    for name in filter(None, map(str.strip, pairs.get(PROVIDERS, "").split(","))):
        prefix = f"{PROVIDERS}.{name}."
        kind = pairs.get(f"{prefix}class", "")
        made = _KINDS.get(kind.removeprefix(PACKAGE)) if kind.startswith(PACKAGE) else None
        if made is None:
            known = ", ".join(f"{PACKAGE}{each}" for each in _KINDS)
            problems.append(f"{prefix}class must be one of {known}")
            continue
        start = f"{prefix}param."
        parameters = {key.removeprefix(start): text for key, text in pairs.items() if key.startswith(start)}
        try:
            yield name, made(parameters)
        except ConfigError as error:
            problems.append(f"{start}{error}")


def _file(parameters: Mapping[str, str]) -> Provider:
    """A value of a properties file."""
    allowed = _allowed_paths(parameters)

    def value(path: str, key: str) -> str:
        found = properties.parse(_text(Path(path), allowed))
        if key not in found:
            raise ConfigError("the file has no such key")
        return found[key]

    return value


def _directory(parameters: Mapping[str, str]) -> Provider:
    """The content of a file, as container platforms mount secrets."""
    allowed = _allowed_paths(parameters)

    def value(path: str, key: str) -> str:
        if not key or "/" in key or key in (".", ".."):
            raise ConfigError("not the name of a file")
        return _text(Path(path, key), allowed)

    return value


def _environment(parameters: Mapping[str, str]) -> Provider:
    """An environment variable."""
    try:
        allowed = re.compile(parameters.get("allowlist.pattern", ".*"), re.DOTALL)
    except re.error as error:
        raise ConfigError(f"allowlist.pattern: {error}") from None

    def value(path: str, key: str) -> str:
        if path:
            raise ConfigError("an environment variable has no path")
        if not allowed.fullmatch(key) or key not in os.environ:
            raise ConfigError("there is no such environment variable, or allowlist.pattern leaves it out")
        return os.environ[key]

    return value


_KINDS: Final[Mapping[str, Callable[[Mapping[str, str]], Provider]]] = {
    "FileConfigProvider": _file,
    "DirectoryConfigProvider": _directory,
    "EnvVarConfigProvider": _environment,
}


def _allowed_paths(parameters: Mapping[str, str]) -> tuple[Path, ...] | None:
    text = parameters.get("allowed.paths", "")
    paths = tuple(Path(each.strip()) for each in text.split(",") if each.strip())
    if any(not path.is_absolute() for path in paths):
        raise ConfigError("allowed.paths: not absolute")
    return tuple(path.resolve() for path in paths) or None


def _text(path: Path, allowed: tuple[Path, ...] | None) -> str:
    """A file's text. Raises ConfigError."""
    try:
        real = path.resolve()
        if allowed is not None and not any(real.is_relative_to(folder) for folder in allowed):
            raise ConfigError("allowed.paths leaves it out")
        with open_plain(real) as file:
            content = file.read(MAX_BYTES + 1)
        if len(content) > MAX_BYTES:
            raise ConfigError(f"larger than {MAX_BYTES} bytes")
        return content.decode()
    except OSError as error:
        raise ConfigError(error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError("not UTF-8") from None
