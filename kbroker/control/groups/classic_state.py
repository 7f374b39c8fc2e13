"""The states of a classic group, and which may follow which."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ClassicState(StrEnum):
    """States, named as clients see them."""

    EMPTY = "Empty"
    PREPARING_REBALANCE = "PreparingRebalance"
    COMPLETING_REBALANCE = "CompletingRebalance"
    STABLE = "Stable"
    DEAD = "Dead"

    def may_follow(self, state: "ClassicState") -> bool:
        """Whether a group changes from the other state to this one."""
        return state in _BEFORE[self]


_BEFORE: Final[Mapping[ClassicState, frozenset[ClassicState]]] = MappingProxyType(
    {
        ClassicState.EMPTY: frozenset({ClassicState.PREPARING_REBALANCE}),
        ClassicState.PREPARING_REBALANCE: frozenset(
            {ClassicState.STABLE, ClassicState.COMPLETING_REBALANCE, ClassicState.EMPTY}
        ),
        ClassicState.COMPLETING_REBALANCE: frozenset({ClassicState.PREPARING_REBALANCE}),
        ClassicState.STABLE: frozenset({ClassicState.COMPLETING_REBALANCE}),
        ClassicState.DEAD: frozenset(ClassicState),
    }
)
