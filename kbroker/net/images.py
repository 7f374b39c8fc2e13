"""Applies the images that control sends: topics, ACLs, logins, quotas, settings.

An ACL for everybody changes the permissions of all principals, for thousands of topics each. An
image is applied in slices, one image after the other; clients are served between two slices.
"""

import asyncio
import logging
import socket
from collections import deque
from collections.abc import Callable
from functools import partial

from kbroker.ipc.background import Background
from kbroker.ipc.messages import Image
from kbroker.net.accept.acceptor_updates import AcceptorSettings, IpRates
from kbroker.net.api_versions import VersionAnswers
from kbroker.net.fetch.fetches import Fetches
from kbroker.net.local_answers.known_versions import KnownVersions
from kbroker.net.process import NetworkProcess
from kbroker.net.security.logins import Logins
from kbroker.protocol.slices import Work

log = logging.getLogger(__name__)


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
        self._waiting: deque[tuple[Image, Callable[[], None]]] = deque()
        self._working = False
        self._background = Background(log, "an image could not be applied")

    def apply(self, image: Image, applied: Callable[[], None]) -> None:
        """Apply an image after all earlier ones; at once, if that takes one slice. Calls `applied`
        then."""
        self._waiting.append((image, applied))
        if not self._working:
            self._apply_waiting()

    def _apply_waiting(self) -> None:
        while self._waiting:
            image, applied = self._waiting.popleft()
            work = Work(partial(self._apply, image))
            work.run_slice()
            if not work.done:
                self._working = True
                self._background.start(self._finish(work, applied))
                return
            applied()

    async def _finish(self, work: Work, applied: Callable[[], None]) -> None:
        """Run the other slices, then the images that have arrived meanwhile. An image that fails is
        not confirmed: control closes the link, and the next one begins with a full image."""
        try:
            while not work.done:
                await asyncio.sleep(0)
                work.run_slice()
            applied()
        finally:
            self._working = False
            self._apply_waiting()

    def _apply(self, image: Image) -> None:
        process = self._process
        gone = process.topics.apply(image.topics, image.deleted, image.full, image.version)
        self._fetches.on_gone(gone)
        process.access.change(image.acls, image.full)
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
