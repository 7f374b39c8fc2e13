"""Options of the load test that have no effect beside another option."""

from collections.abc import Mapping
from typing import ClassVar

from loadtest.single_values import UsefulOptions


class LoadCommand(UsefulOptions):
    """A command of the load test."""

    idle_beside: ClassVar[Mapping[str, Mapping[str, tuple[str, ...]]]] = {
        "loadtest run": {"--target": ("--broker", "--keep-data")},
        "loadtest plan": {"--target": ("--broker",)},
    }
    idle_without: ClassVar[Mapping[str, Mapping[str, str]]] = {
        "loadtest run": {"--command-config": "--target"},
        "loadtest overhead": {"--command-config": "--target"},
    }
