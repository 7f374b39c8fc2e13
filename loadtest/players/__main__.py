"""`python -m loadtest.players PART`: one player; PART is loadtest.players.part.Part as JSON."""

import json
import signal
import sys

from loadtest.page import Slot
from loadtest.players.consuming import ConsumingPlayer
from loadtest.players.copying import CopyingPlayer
from loadtest.players.draining import DrainingPlayer
from loadtest.players.part import Part, Player
from loadtest.players.producing import ProducingPlayer
from loadtest.players.sharing import SharingPlayer
from loadtest.players.transacting import TransactingPlayer

PLAYERS: dict[str, type[Player]] = {
    "produce": ProducingPlayer,
    "transact": TransactingPlayer,
    "copy": CopyingPlayer,
    "consume": ConsumingPlayer,
    "share": SharingPlayer,
    "drain": DrainingPlayer,
}


def main() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches the conductor, which ends players in order
    part = Part(**json.loads(sys.argv[1]))
    player = PLAYERS[part.role](part)
    player.play()
    player.page[Slot.DONE] = 1


main()
