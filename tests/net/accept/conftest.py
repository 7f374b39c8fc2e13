"""Fixtures of the acceptor's tests."""

from collections.abc import Iterator

import pytest

from tests.net.accept.acceptor_scene import Scene


@pytest.fixture
def scenes() -> Iterator[list[Scene]]:
    made: list[Scene] = []
    yield made
    for scene in made:
        scene.close()
