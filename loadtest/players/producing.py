"""A producer without transactions: sends what its schedule says, with or without idempotence."""

import numpy as np
from confluent_kafka import KafkaException

from loadtest.page import Slot
from loadtest.players.life import Fatal, ProducerLife
from loadtest.players.part import Part, Player
from loadtest.shape import SHAPES, Schedule

BLOCK = 500  # records made and sent in one go
IDLE_S = 0.005
NOTHING = np.empty(0, np.int64)


def schedule_of(part: Part, player: Player) -> Schedule:
    """The run's; a player that replaces another in the middle of the run continues there."""
    settings = player.settings
    shape, now_ns = SHAPES[settings.shape], player.clock.now_ns()
    return Schedule(part.rate, shape, part.begin_ns, settings.seconds, now_ns)


class ProducingPlayer(Player):
    """Runs in: its own process."""

    def play(self) -> None:
        schedule = schedule_of(self.part, self)
        while not self.stopping:
            life = ProducerLife(self, self.part.topics[self.part.mode], None)
            try:
                while not self.stopping:
                    self._turn(life, schedule)
            except (Fatal, KafkaException) as failure:
                print(f"{self.part.label}: begins a new life: {failure}", flush=True)
            finally:
                life.close()

    def _turn(self, life: ProducerLife, schedule: Schedule) -> None:
        now_ns = self.clock.now_ns()
        schedule.advance(now_ns)
        limit = min(BLOCK, life.outbox.room(life.values.next_seq))
        intended_ns = schedule.take(limit, now_ns) if limit > 0 else NOTHING
        self.page[Slot.WAITING] = schedule.waiting
        if len(intended_ns):
            life.send(life.values.make(intended_ns))
        life.poll(0 if len(intended_ns) == BLOCK else IDLE_S)
        life.check()
