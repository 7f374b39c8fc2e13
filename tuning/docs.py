"""Generates docs/knobs.md from the tables."""

from collections.abc import Iterator

from tuning.broker.proposed import PROPOSED
from tuning.broker.rules import RULES
from tuning.broker.running import SIGNS
from tuning.knobs.registry import KNOBS
from tuning.knobs.settings import SETTINGS

_INTRO = """\
# Knobs

Look up the recommended value of a setting of the host or the broker, with the reason. Generated
from `tuning/knobs/` and `tuning/broker/` by `make docs`; do not edit. How to use it: [tuning.md](tuning.md).

`kbroker tune check` checks each of these. The proposed value depends on the host and the workload:
the column "value" has the good values, and `check` prints the one for this host.
"""


def page() -> str:
    """The whole text of docs/knobs.md."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _INTRO
    for room, knobs in KNOBS.items():
        yield f"## {room}\n"
        yield "| knob | setting | value | why | source |"
        yield "|---|---|---|---|---|"
        for knob in knobs:
            setting, value = SETTINGS[knob.name]
            yield f"| {knob.name} | `{setting}` | {value} | {knob.why} | {knob.source} |"
        yield ""
    yield "## Settings of the broker\n"
    yield "The settings that `kbroker tune propose` may propose; it prints the reason with its figures.\n"
    yield "| setting | value | why |"
    yield "|---|---|---|"
    for rule in RULES:
        keys, value = PROPOSED[rule.__name__]
        names = ", ".join(f"`{key}`" for key in keys)
        yield f"| {names} | {value} | {' '.join((rule.__doc__ or '').split())} |"
    yield ""
    yield "## Signs of a running broker\n"
    yield "With `--metrics host:port`.\n"
    yield "| sign | metric | meaning | remedy |"
    yield "|---|---|---|---|"
    for sign in SIGNS:
        yield f"| {sign.name} | `{sign.metric}` | {sign.why} | {sign.cure} |"
