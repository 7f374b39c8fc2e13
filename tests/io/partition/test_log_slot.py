"""What a log publishes in its slot for other processes."""

from pathlib import Path

from kbroker.ipc.layout import Slot
from tests.io.append.plain_append import NOW, Log
from tests.log.batch_bytes import batch


def test_a_slots_largest_timestamp_is_not_its_last_partitions(tmp_path: Path) -> None:
    log = Log(tmp_path)
    log.words[Slot.MAX_TIMESTAMP] = NOW + 1
    log.open()
    assert log.words[Slot.MAX_TIMESTAMP] == -1
    log.append(batch(0, [b"v"], [NOW]))
    log.partition.published.publish()
    assert log.words[Slot.MAX_TIMESTAMP] == NOW


def test_the_version_is_odd_while_the_list_of_segments_changes_and_always_rises(tmp_path: Path) -> None:
    """A reader that lists the files meanwhile lists them again."""
    log = Log(tmp_path)
    slot = log.open().published
    versions = [slot.segments_version]
    for _ in range(2):
        slot.publish(changing=True)
        versions.append(slot.segments_version)
        slot.publish()
        assert slot.segments_version == versions[-1], "another publication ends no change"
        slot.publish(changed=True)
        versions.append(slot.segments_version)
    assert [version % 2 for version in versions] == [0, 1, 0, 1, 0]
    assert versions == sorted(set(versions))
