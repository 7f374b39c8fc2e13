"""Applies the images that control sends: topics, ACLs, logins, quotas, settings."""

import socket

from kbroker.ipc.messages import Image
from kbroker.net.accept.acceptor_updates import AcceptorSettings, IpRates
from kbroker.net.api_versions import VersionAnswers
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.local_answers.known_versions import KnownVersions
from kbroker.net.process import NetworkProcess
from kbroker.net.security.logins import Logins


class Images:
    """Runs in: network. Owner: the process's main, which sets `logins` and `known_versions`
    before the first image.

    handoff: channel to the acceptor, in the one process that sends it settings.
    """

    def __init__(
        self,
        process: NetworkProcess,
        fetches: Fetches,
        handoff: socket.socket | None,
        version_answers: VersionAnswers | None,
    ) -> None:
        self.logins: Logins | None = None
        self.known_versions: KnownVersions | None = None
        self._process = process
        self._fetches = fetches
        self._ip_rates = None if handoff is None else IpRates(handoff)
        self._acceptor_settings = None if handoff is None else AcceptorSettings(handoff)
        self._version_answers = version_answers

    def apply(self, image: Image) -> None:
        """Apply an image."""
        process = self._process
        gone = process.topics.apply(image.topics, image.deleted, image.full, image.version)
        process.access.change(image.acls, image.full)
        self._fetches.on_gone(gone)
        assert self.logins is not None
        self.logins.change(image.settings)
        process.tls.change(image.settings)
        if self._acceptor_settings is not None:
            self._acceptor_settings.change(image.settings)
        if image.quotas is not None:
            process.quotas.change(image.quotas, list(process.connections.values()), image.full)
            if self._ip_rates is not None:
                self._ip_rates.change(image.quotas, image.full)
        if self._version_answers is not None:
            self._version_answers.take(image)
            assert self.known_versions is not None
            self.known_versions.forget()
