"""A command's connection to the broker, by clients of two libraries."""

import logging
import re
import socket
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kbroker.cli.client_properties import reason_of_unknown, refuse_oauth, to_kafka_python
from kbroker.cli.failures import CommandFailed, Unreachable, UsageFailed, explain
from kbroker.cli.listener_probe import FILE_OPTION, refusal
from kbroker.cli.refusals import Refusals
from kbroker.config.whole_numbers import whole_number

if TYPE_CHECKING:
    from confluent_kafka import Consumer, Producer, ShareConsumer  # type: ignore[attr-defined]
    from confluent_kafka.admin import AdminClient

DEFAULT_BOOTSTRAP = "127.0.0.1:9092"
NO_ADDRESS_GIVEN = "; `kbroker serve` starts a broker, -b HOST:PORT names another one"
NO_LISTENER = "; is the broker running, and does it listen there?"
CLIENT_ID = "kbroker-cli"
MIN_SHARE_S = 1.0
"""An address gets this much even if those before it have used the whole timeout, as names with many
A and AAAA records do."""
_NO_HOST = re.compile(r"[/\[\]\s]")
"""Characters that no host's name or address has: they are left of a URL or of half an IPv6
address."""
_ADVERTISED = re.compile(r"(\S+)/\d+: ((?:Failed to resolve|Connect to) .*?)(?: \(after \d+ms in .*)?")
"""A broker that librdkafka knows by its node id: its address is that of an answer, not of -b."""
_UNKNOWN_SETTING = re.compile(r'No such configuration property: "([^"]*)"')
_NO_KERBEROS = "No provider for SASL mechanism GSSAPI"
_MECHANISMS = "set PLAIN, SCRAM-SHA-256, SCRAM-SHA-512 or OAUTHBEARER"


class CredentialsRefused(CommandFailed):
    """The broker refuses the user or the password, as it does at its other addresses."""


class Connection:
    """Bootstrap address, client settings and timeout of one command. Clients are made on demand.

    confluent-kafka does most; kafka-python serves where librdkafka lacks a call (transactions,
    removal of members and of offsets, features, log directories, configurations of groups).
    """

    def __init__(
        self,
        bootstrap: str,
        settings: Mapping[str, str],
        timeout_s: float,
        file: Path | None = None,
        option: str = FILE_OPTION,
    ) -> None:
        """file: holds the settings. option: names the file, for messages."""
        self.bootstrap = bootstrap
        self.file = file
        self._option = option
        self.settings = {key: value for key, value in settings.items() if key != "bootstrap.servers"}
        self.timeout_s = timeout_s
        self.last_error = ""
        self._admin: AdminClient | None = None
        self._proved = False
        self._reached = ""
        self._advertised = ""
        self._refusals = Refusals()
        self._log = logging.getLogger("kbroker.cli.librdkafka")
        self._log.addHandler(logging.NullHandler())
        self._log.propagate = False

    def again(self) -> "Connection":
        """Another connection, with clients of its own."""
        return Connection(self.bootstrap, self.settings, self.timeout_s, self.file, self._option)

    def admin(self) -> "AdminClient":
        """The shared admin client of confluent-kafka. Raises Unreachable.

        It is stored here because its pending requests end with it."""
        if self._admin is None:
            from confluent_kafka.admin import AdminClient

            self.reach()
            admin: AdminClient = self._client(AdminClient, {})
            self._admin = admin
        return self._admin

    def consumer(self, settings: Mapping[str, Any]) -> "Consumer":
        """A consumer; these settings override the user's file. Raises Unreachable."""
        from confluent_kafka import Consumer

        self.reach()
        consumer: Consumer = self._client(Consumer, settings)
        return consumer

    def share_consumer(self, settings: Mapping[str, Any]) -> "ShareConsumer":
        """A member of a share group; these settings override the user's file. Raises
        Unreachable."""
        from confluent_kafka import ShareConsumer  # type: ignore[attr-defined] # not in its stubs

        self.reach()
        return self._client(ShareConsumer, settings)

    def producer(self, settings: Mapping[str, Any]) -> "Producer":
        """A producer; these settings override the user's file. Raises Unreachable."""
        from confluent_kafka import Producer

        self.reach()
        producer: Producer = self._client(Producer, settings)
        return producer

    def kafka_python_admin(self) -> Any:
        """kafka-python's admin client, connected; use it in `with`. Raises Unreachable,
        UsageFailed."""
        logging.getLogger("kafka").addHandler(logging.NullHandler())
        logging.getLogger("kafka").propagate = False
        from kafka.admin import KafkaAdminClient

        refuse_oauth(self.settings)
        self.reach()
        timeout_ms = int(self.timeout_s * 1000)
        settings = {"client_id": CLIENT_ID, **to_kafka_python(self.settings)}
        return KafkaAdminClient(
            bootstrap_servers=[self._reached],
            request_timeout_ms=timeout_ms,
            bootstrap_timeout_ms=timeout_ms,
            **settings,
        )

    def reach(self) -> None:
        """Returns when one of the bootstrap addresses accepts requests of this client.

        The client libraries would retry a dead address, a listener with TLS or a wrong password
        until their timeout. Raises CommandFailed."""
        addresses = [text for each in self.bootstrap.split(",") if (text := each.strip())] or [""]
        addresses.sort(key=lambda each: each != self._reached)
        pending = [(each, *_split(each)) for each in addresses]
        failures: dict[str, OSError | CommandFailed] = {}
        deadline = time.monotonic() + self.timeout_s
        min_share_s = min(MIN_SHARE_S, self.timeout_s / len(pending))
        while True:
            silent = []
            for left, (address, host, port) in zip(range(len(pending), 0, -1), pending, strict=True):
                now = time.monotonic()
                until = now + max((deadline - now) / left, min_share_s)  # leaves time for the next
                try:
                    self._prove(address, host, port, until)
                    self._reached = address
                    return
                except UnicodeError:
                    raise UsageFailed(f"bootstrap {address!r}: not a valid host name") from None
                except (UsageFailed, CredentialsRefused):
                    raise
                except (OSError, CommandFailed) as error:
                    failures[address] = error.with_traceback(None)  # whose frames hold a client
                    if time.monotonic() >= until:
                        silent.append((address, host, port))
            if not silent or deadline - time.monotonic() < min_share_s:
                raise self._unreachable(failures)
            pending = silent

    def _unreachable(self, failures: Mapping[str, OSError | CommandFailed]) -> CommandFailed:
        """The failure of all addresses; failures: by address."""
        refused, dead = [], []
        for address, error in failures.items():
            if isinstance(error, OSError):
                dead.append(f"{address}: {error.strerror or error}")
            elif isinstance(error, Unreachable):
                refused.append(error.message)
            else:
                return error
        hint = NO_ADDRESS_GIVEN if self.bootstrap == DEFAULT_BOOTSTRAP else NO_LISTENER
        if dead:
            refused.append(f"cannot connect to {'; '.join(dead)}{hint}")
        return Unreachable("; ".join(refused))

    def _prove(self, address: str, host: str, port: int, deadline: float) -> None:
        """Connects to the broker once, by the client's protocol. Raises CommandFailed as soon as
        the broker refuses the client, OSError if it accepts no connection."""
        if self._is_plain and not self._proved:
            reason = refusal(host, port, deadline)
            if reason:
                raise Unreachable(f"{host}:{port} {reason.replace(FILE_OPTION, self._option)}")
        else:
            socket.create_connection((host, port), max(deadline - time.monotonic(), 0.1)).close()
            if not self._proved:
                self._log_in(address, deadline)
        self._proved = True

    @property
    def _is_plain(self) -> bool:
        return self.settings.get("security.protocol", "PLAINTEXT").upper() == "PLAINTEXT"

    def _log_in(self, address: str, deadline: float) -> None:
        """Sends a first request over TLS or SASL. Raises CommandFailed for a failed handshake or a
        refused login."""
        from confluent_kafka.admin import AdminClient

        self._refusals = Refusals()  # not those of another address
        admin = self._client(AdminClient, {"bootstrap.servers": address})
        answer = admin.describe_cluster(request_timeout=self.timeout_s)
        while not answer.done() and time.monotonic() < deadline:
            admin.poll(0.02)
            if self._refusals.reason:
                kind = CredentialsRefused if self._refusals.of_credentials else CommandFailed
                raise kind(self._refusals.reason)
        error = answer.exception() if answer.done() else TimeoutError()
        if error is not None and isinstance(explain(error), Unreachable):
            protocol = self.settings.get("security.protocol")
            raise Unreachable(f"no answer of {address}: is {protocol} the protocol of this listener?")

    def add_reason(self, failure: CommandFailed) -> None:
        """Add the address that the broker advertises to the message of a failure, if that is what
        cannot be reached."""
        if self._admin is not None:
            self._admin.poll(0)  # takes notes of its errors
        failure.message += self._advertised

    def _client(self, kind: Callable[..., Any], more: Mapping[str, Any]) -> Any:
        """A client of librdkafka. more: settings that override the file's. Raises UsageFailed for a
        setting in the file that librdkafka does not know, and for a missing sasl.mechanism."""
        try:
            return kind(self._librdkafka() | dict(more), logger=self._log)
        except Exception as error:
            if _NO_KERBEROS in str(error):
                raise UsageFailed(f"sasl.mechanism is GSSAPI, the default: {_MECHANISMS}") from error
            unknown = _UNKNOWN_SETTING.search(str(error))
            if self.file is None or unknown is None or unknown[1] in more or unknown[1] not in self.settings:
                raise
            why = reason_of_unknown(unknown[1])
            raise UsageFailed(f"{self.file}: no client setting {unknown[1]}{why}") from error

    def _librdkafka(self) -> dict[str, Any]:
        return {
            "client.id": CLIENT_ID,
            **self.settings,
            "bootstrap.servers": self.bootstrap,
            "error_cb": self._note_error,
        }

    def _note_error(self, error: object) -> None:
        self.last_error = str(getattr(error, "str", lambda: error)())
        if found := _ADVERTISED.fullmatch(self.last_error):
            self._advertised = f"; no connection to {found[1]}, which the broker advertises: {found[2]}"
        self._refusals.note(getattr(error, "name", str)(), self.last_error)


def _split(address: str) -> tuple[str, int]:
    host, colon, port = address.removeprefix("PLAINTEXT://").rpartition(":")
    if not colon:
        host, port = port, "9092"
    number = whole_number(port, 65535)
    name = host[1:-1] if host.startswith("[") and host.endswith("]") else host
    if not name or not number or _NO_HOST.search(name):
        raise UsageFailed(f"bootstrap {address!r}: expected host:port[,host:port...]")
    return name, number
