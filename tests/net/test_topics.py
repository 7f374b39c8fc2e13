"""The tables by which kernels find topics."""

import numpy as np

from kbroker.ipc.messages import TopicImage
from kbroker.net.network_tables import NetworkTables
from kbroker.net.topics import Topics
from tests.net.colliding_names import colliding_names
from tests.net.tables import new_tables


def test_chosen_names_have_places_of_their_own() -> None:
    """Clients may choose them; each search would read all of a long run."""
    tables: NetworkTables = new_tables()
    topics = Topics(tables)
    images = [
        TopicImage(name, number.to_bytes(16, "big"), False, ())
        for number, name in enumerate(colliding_names(1000), 1)
    ]
    topics.apply(images, (), True, 1)
    free = np.flatnonzero(topics._name_index == 0)
    assert np.diff(free).max() < 200
