"""A group member that reads and commits until it is stopped."""

import time

from confluent_kafka import KafkaException

from loadtest.page import Slot
from loadtest.players.membership import Membership
from loadtest.players.part import Player

MAX_AT_ONCE = 2000
COMMIT_EVERY_S = 0.5
QUIET_S = 3.0
PATIENCE_S = 60.0
CATCH_UP = 2  # value of page slot STOP: read until no records arrive; 1: leave at once


class ConsumingPlayer(Player):
    """Runs in: its own process. Reads committed records of transactional topics, all records of
    others."""

    def play(self) -> None:
        mode = self.part.mode
        isolation = "read_committed" if mode in ("transactional", "copied") else "read_uncommitted"
        member = Membership(
            self,
            self.part.topics[mode],
            f"{self.part.topics[mode]}-readers",
            isolation,
            cooperative=mode in ("idempotent", "copied"),
        )
        self._next_commit = time.monotonic() + COMMIT_EVERY_S
        try:
            while not self.stopping:
                self._turn(member, 0.1)
            if self.page[Slot.STOP] == CATCH_UP:
                self._catch_up(member)
        finally:
            member.close()

    def _turn(self, member: Membership, wait_s: float) -> int:
        began = time.monotonic()
        try:
            messages = member.read(MAX_AT_ONCE, wait_s)
        except KafkaException as failure:
            print(f"{self.part.label}: {failure}", flush=True)
            time.sleep(0.1)
            return 0
        member.hold(messages)
        if time.monotonic() >= self._next_commit:
            member.commit()
            self._next_commit = time.monotonic() + COMMIT_EVERY_S
        if self.settings.consume_rate and messages:
            time.sleep(max(0.0, len(messages) / self.settings.consume_rate - (time.monotonic() - began)))
        return len(messages)

    def _catch_up(self, member: Membership) -> None:
        """Read until QUIET_S without a record, after the producers have ended."""
        began = last = time.monotonic()
        while time.monotonic() - last < QUIET_S and time.monotonic() - began < PATIENCE_S:
            if self._turn(member, 0.1):
                last = time.monotonic()
