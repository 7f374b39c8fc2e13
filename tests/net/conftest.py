"""Fixtures of the network process's tests."""

from collections.abc import Callable, Iterator

import pytest

from tests.net.doubles import NetNode

NodeFactory = Callable[..., NetNode]


@pytest.fixture
def node_factory() -> Iterator[NodeFactory]:
    """Starts network processes with stand-ins:
    `node_factory({"topic": partitions}, settings=...)`."""
    made: list[NetNode] = []

    def make(*arguments: object, **named: object) -> NetNode:
        node = NetNode(*arguments, **named)
        made.append(node)
        return node.start()

    yield make
    codes = [node.stop() for node in made]
    assert not any(codes)
