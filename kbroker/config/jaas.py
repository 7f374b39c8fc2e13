"""Login module lines (`sasl.jaas.config`): the users of SASL/PLAIN, in Kafka's format.

org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="secret"
user_bob="other";
"""

import re
from collections.abc import Mapping

from kbroker.config.setting import ConfigError

PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"
_FLAGS = "required|requisite|sufficient|optional"
_VALUE = r'"(?:[^"\\]|\\.)*"|[^\s";=]+'
_LINE = re.compile(rf"\s*([\w.$]+)\s+({_FLAGS})((?:\s+[^\s=;\"]+\s*=\s*(?:{_VALUE}))*)\s*;\s*", re.IGNORECASE)
_OPTION = re.compile(rf"([^\s=;\"]+)\s*=\s*({_VALUE})")
_USER = "user_"


def parse_login_module(text: str) -> tuple[str, Mapping[str, str]]:
    """Module class and options. Raises ConfigError, which shows nothing of the text: it may hold
    passwords."""
    match = _LINE.fullmatch(text)
    if match is None:
        raise ConfigError("JAAS config: not one entry of the form: MODULE required OPTION=VALUE ... ;")
    options = {name: _unquoted(value) for name, value in _OPTION.findall(match[3])}
    return match[1], options


def plain_users(text: str) -> Mapping[str, str]:
    """Passwords by user. Raises ConfigError."""
    module, options = parse_login_module(text)
    if module != PLAIN_MODULE:
        raise ConfigError(f"JAAS config: the login module of PLAIN is {PLAIN_MODULE}, not {module}")
    return {name.removeprefix(_USER): value for name, value in options.items() if name.startswith(_USER)}


def _unquoted(value: str) -> str:
    if not value.startswith('"'):
        return value
    return re.sub(r"\\(.)", r"\1", value[1:-1])
