"""The topic catalogue."""

import pytest

from kbroker.control.metadata.catalogue import Catalogue, Partition, Replica, Topic


def topic(name: str, count: int = 1, topic_id: bytes = b"i" * 16) -> Topic:
    return Topic(name, topic_id, [Partition(name, index, "/d", index, index + 1) for index in range(count)])


def test_topics_are_found_by_name_and_by_id() -> None:
    catalogue = Catalogue([topic("a")])
    assert catalogue.get("a") is catalogue.by_id(b"i" * 16)
    assert catalogue.get("b") is None
    assert catalogue.get(None) is None


def test_partitions_outside_the_topic_are_not_found() -> None:
    catalogue = Catalogue([topic("a", 2)])
    assert catalogue.partition("a", 1) is not None
    assert catalogue.partition("a", 2) is None
    assert catalogue.partition("a", -1) is None


def test_every_change_has_a_new_version() -> None:
    catalogue = Catalogue()
    versions = [catalogue.version]
    catalogue.put(topic("a"))
    versions.append(catalogue.version)
    catalogue.topics["a"].partitions.append(Partition("a", 1, "/d", 9, 9))
    catalogue.put(catalogue.topics["a"])
    versions.append(catalogue.version)
    catalogue.remove("a")
    versions.append(catalogue.version)
    assert versions == sorted(set(versions))


def test_a_removed_topic_is_gone_by_id_as_well() -> None:
    catalogue = Catalogue([topic("a.b")])
    catalogue.remove("a.b")
    assert catalogue.by_id(b"i" * 16) is None
    assert catalogue.colliding("a_b") is None
    with pytest.raises(KeyError):
        catalogue.remove("a.b")


def test_a_topic_put_again_has_its_new_id_only() -> None:
    catalogue = Catalogue([topic("a")])
    catalogue.put(topic("a", topic_id=b"j" * 16))
    assert catalogue.by_id(b"i" * 16) is None
    assert catalogue.by_id(b"j" * 16) is not None


def test_collisions_are_found_in_both_directions() -> None:
    catalogue = Catalogue([topic("a.b"), topic("plain", topic_id=b"p" * 16)])
    assert catalogue.colliding("a_b") == "a.b"
    assert catalogue.colliding("a.b") == "a.b"
    assert catalogue.colliding("plain") is None


def test_images_name_folder_slot_and_generation() -> None:
    image = topic("a", 2).image()
    assert [(p.index, p.slot, p.generation, p.folder) for p in image.partitions] == [
        (0, 0, 1, "/d/a-0"),
        (1, 1, 2, "/d/a-1"),
    ]
    assert not image.internal
    assert topic("__consumer_offsets").image().internal


@pytest.mark.parametrize("has_leader", [True, False])
@pytest.mark.parametrize("in_sync", [(True,), (False,), (True, False), (False, True, True)])
def test_images_count_the_replicas_in_sync_and_name_the_followers(
    in_sync: tuple[bool, ...], has_leader: bool
) -> None:
    made = Partition("a", 0, "/d", 0, 1)
    made.has_leader = has_leader
    made.replicas += [Replica("a", 0, f"/d{slot}", slot, 9) for slot in range(1, len(in_sync))]
    for replica, one in zip(made.replicas, in_sync, strict=True):
        replica.in_sync = one
    for leader in made.replicas:
        made.leader = leader
        image = made.image()
        assert image.slot == leader.slot
        assert image.in_sync == (sum(in_sync) if has_leader else 0)
        assert image.followers == tuple(slot for slot in range(len(in_sync)) if slot != leader.slot)
        assert image.preferred == (leader.slot == 0)
