"""Recognizes permanent errors that librdkafka reports while it retries."""

import re

_TRIES = re.compile(r" \(after \d+ms in state [A-Z_]+.*\)$")
_ALERT = re.compile(r"SSL routines:[^:]*:(?:tlsv?\d+ |sslv?\d+ )?alert (.+?)(?:: SSL alert number \d+)?$")
"""Text about an alert. In TLS 1.3 a listener refuses a client's certificate after the handshake."""
_MECHANISM = re.compile(r"SASL (\S+) mechanism handshake failed: .*supported mechanisms:\s*(.*)$")
"""The listener's mechanisms, separated by commas; none if it takes no login."""
_NO_CERTIFICATE = "certificate required"
_UNVERIFIED = re.compile(r"(?:SSL handshake failed: )?(?:error:\S* routines::)?certificate verify failed.*$")
_REQUIRED = (
    "certificate verify failed: the broker's certificate must be of an authority in ssl.truststore.location, "
    "and have the name or address that -b gives"
)
"""librdkafka's text has its own name of the setting, and leaves out the name in the certificate."""
HANDSHAKES = 3
"""Handshakes without a TLS answer before the listener counts as one without TLS. A stopping broker
ends one, too."""
CLOSED = 8
"""Connections that end silently after the handshake before the listener counts as one that requires
a login."""


class Refusals:
    """reason: why the broker accepts no request of this client; empty while unknown.
    of_credentials: whether it is the user or the password."""

    def __init__(self) -> None:
        self.reason = ""
        self.of_credentials = False
        self._handshakes = 0
        self._closed = 0
        self._was_lost = False

    def note(self, name: str, text: str) -> None:
        """name: of librdkafka's error, `_SSL`; text: its message."""
        reason = _TRIES.sub("", text)
        if name == "_AUTHENTICATION":
            mechanism = _mechanism_refused(reason)
            self.of_credentials = not mechanism
            self.reason = mechanism or f"the broker refuses these credentials: {reason}"
        elif name == "_SSL":
            self.reason = f"no TLS connection: {_UNVERIFIED.sub(_REQUIRED, reason)}"
        elif name == "_TRANSPORT":
            self._note_lost_connection(reason)
        elif name == "_ALL_BROKERS_DOWN" and not self._was_lost:
            self._closed += 1
            if self._closed >= CLOSED:
                self.reason = (
                    "the listener closes the connection without a login: "
                    "set security.protocol=SASL_SSL and sasl.*"
                )

    def _note_lost_connection(self, text: str) -> None:
        if alert := _ALERT.search(text):
            self.reason = f"the listener refuses the TLS connection: {alert[1]}"
            if alert[1] == _NO_CERTIFICATE:
                self.reason += ": set ssl.keystore.location and ssl.keystore.type"
            return
        self._was_lost = True
        self._handshakes += "SSL handshake failed" in text
        if self._handshakes >= HANDSHAKES:
            self.reason = "the listener answers no TLS handshake: set security.protocol without SSL"


def _mechanism_refused(text: str) -> str:
    """A sentence about a login with a mechanism that the listener does not have; empty for any
    other error."""
    found = _MECHANISM.search(text)
    if found is None:
        return ""
    if not found[2]:
        return "the listener takes no login: set security.protocol without SASL"
    return f"the listener does not take sasl.mechanism={found[1]}: it takes {found[2]}"
