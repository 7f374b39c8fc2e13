"""Damaged segments, indexes and checkpoints: readers say CorruptLog, recovery gives back a log that
is whole."""

import random
import shutil
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from kbroker.config.broker import BrokerConfig
from kbroker.config.topic import TopicConfig
from kbroker.io.recovery.loaded_log import LoadRequest
from kbroker.io.recovery.recovery import load
from kbroker.log.checkpoint import known_leader_epochs
from kbroker.log.errors import CorruptLog, UnsupportedFormat
from kbroker.log.open_files import OpenFiles
from kbroker.log.reader import WHOLE_LOG, LogReader
from kbroker.log.timestamps import locate_timestamp, max_timestamp
from kbroker.log.transaction_index import AbortedTransaction, aborted_transactions
from kbroker.log.walk import walk
from kbroker.protocol.records import read_all, read_records
from kbroker.protocol.schema import ProtocolError
from tests.fuzz.campaign import MARKS, Round, forked_campaign
from tests.fuzz.hot_requests import random_batch, sealed
from tests.fuzz.mutation import mutated
from tests.log.batch_bytes import batch, end_marker
from tests.log.folder import Folder

pytestmark = MARKS
NOW = 1_700_000_000_000
SEGMENTS = 3
BATCHES = 12  # of a segment
CONFIG = TopicConfig.resolve({"index.interval.bytes": "200"}, BrokerConfig())


def good_folder(path: Path, rng: random.Random) -> int:
    """A log of several segments with everything Kafka puts beside them; its end offset."""
    folder = Folder(path, index_interval=200)
    offset = 0
    for number in range(SEGMENTS):
        base, parts = offset, []
        for _ in range(BATCHES):
            count = rng.choice((1, 1, 3))
            times = [NOW + offset * 10 + n for n in range(count)]
            values = [rng.randbytes(rng.choice((1, 60, 300))) for _ in range(count)]
            if rng.random() < 0.15:
                parts.append(end_marker(offset, 3, 0, rng.random() < 0.5))
                offset += 1
                continue
            producer = rng.choice((-1, -1, 3))
            parts.append(
                batch(
                    offset,
                    values,
                    times,
                    leader_epoch=number,
                    attributes=0x10 if producer == 3 else 0,
                    producer_id=producer,
                    producer_epoch=0 if producer == 3 else -1,
                    base_sequence=-1,
                )
            )
            offset += count
        folder.segment(base, parts, closed=number < SEGMENTS - 1)
        entry = AbortedTransaction(3, base, base + 4, base + 5)
        folder.file(base, ".txnindex").write_bytes(entry.pack())
    epochs = "".join(f"{number} {number * BATCHES}\n" for number in range(SEGMENTS))
    (path / "leader-epoch-checkpoint").write_text(f"0\n{SEGMENTS}\n{epochs}")
    return offset


def damage(path: Path, rng: random.Random) -> None:
    """Mutate some files, remove some; now and then seal a damaged batch with a right CRC."""
    every = sorted(path.iterdir())
    for file in rng.sample(every, rng.randint(1, 4)):
        if rng.random() < 0.1:
            file.unlink()
            continue
        data = file.read_bytes()
        file.write_bytes(mutated(data, rng) if data else rng.randbytes(rng.choice((8, 12, 40))))


def request(path: Path, clean: bool, log_start: int = 0) -> LoadRequest:
    return LoadRequest(str(path), CONFIG, clean, 0, log_start, NOW)


def each_reader(path: Path, rng: random.Random, end: int) -> list[Callable[[], object]]:
    """Everything that reads a folder, at random places."""
    reader = LogReader(str(path), OpenFiles())
    offset = rng.randint(-1, end + 5)
    timestamp = rng.choice((0, NOW, NOW + 10 * offset, 1 << 62))

    def fetch() -> None:
        place = reader.locate(offset, *WHOLE_LOG)
        if place is not None:
            assert place.size > 0
            assert place.last_offset >= offset
            found = reader.range(place, rng.choice((0, 100, 1 << 20)), *WHOLE_LOG, min_one=True)
            assert found is None or found.length > 0

    def records() -> None:
        for placed in walk(reader, max(offset, 0)):
            with suppress(ProtocolError):
                for _ in read_records(placed.batch, 1 << 24):
                    pass

    return [
        fetch,
        records,
        lambda: locate_timestamp(reader, timestamp, 0, *WHOLE_LOG),
        lambda: max_timestamp(reader, 0, *WHOLE_LOG),
        lambda: aborted_transactions(reader, max(offset, 0), end),
        lambda: known_leader_epochs(str(path)),
    ]


def reading_rounds(root: Path) -> Round:
    def one(rng: random.Random) -> None:
        path = root / "t-0"
        end = good_folder(path, rng)
        damage(path, rng)
        for read in each_reader(path, rng, end):
            with suppress(CorruptLog, ProtocolError):
                read()
        shutil.rmtree(path)

    return one


def test_readers_of_a_damaged_log_say_so(tmp_path: Path) -> None:
    forked_campaign(lambda: reading_rounds(tmp_path), 0.06)


def recovery_rounds(root: Path) -> Round:
    def one(rng: random.Random) -> None:
        path = root / "t-0"
        end = good_folder(path, rng)
        damage(path, rng)
        if rng.random() < 0.3:  # a clean stop vouches for what is not so
            with suppress(CorruptLog):
                load(request(path, True))
        try:
            loaded = load(request(path, False))
        except UnsupportedFormat:  # a mutated magic: Kafka's old formats are refused as a whole
            shutil.rmtree(path)
            return
        offsets = [p.batch.base_offset for p in walk(LogReader(str(path), OpenFiles()))]
        assert offsets == sorted(set(offsets))
        assert not offsets or offsets[-1] < loaded.active.next_offset
        for read in each_reader(path, rng, end):
            read()
        again = load(request(path, False, loaded.log_start))
        assert (again.truncated_bytes, again.active.next_offset) == (0, loaded.active.next_offset)
        shutil.rmtree(path)

    return one


def test_recovery_of_a_damaged_log_gives_a_valid_one(tmp_path: Path) -> None:
    forked_campaign(lambda: recovery_rounds(tmp_path), 0.1)


def record_rounds() -> Round:
    def one(rng: random.Random) -> None:
        for _ in range(20):
            data = random_batch(rng)
            data = mutated(data, rng, rng.choice((0, 61)))
            data = sealed(data) if rng.random() < 0.7 else data
            with suppress(ProtocolError):
                for _ in read_all(data):
                    pass

    return one


def test_damaged_batches_give_records_or_a_protocol_error() -> None:
    forked_campaign(record_rounds, 0.04)
