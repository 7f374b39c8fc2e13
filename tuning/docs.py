"""Generates docs/knobs.md from the tables."""

from collections.abc import Iterator

from tuning.broker.proposed import PROPOSED
from tuning.broker.rules import RULES
from tuning.broker.running import SIGNS
from tuning.knobs.registry import KNOBS
from tuning.knobs.settings import SETTINGS

_INTRO = """\
# Knobs

Look up what a setting of the host or the broker should be, and why. Generated from `tuning/knobs/` and
`tuning/broker/` by `make docs`; do not edit. How to use it: [tuning.md](tuning.md).

`kbroker tune check` looks at each of these. What it wants depends on the host and the workload: the
value is the
one that is well, and `check` says which one it proposes here.
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
    yield "What `kbroker tune propose` may propose; the reason it prints has the figures.\n"
    yield "| setting | value | why |"
    yield "|---|---|---|"
    for rule in RULES:
        keys, value = PROPOSED[rule.__name__]
        names = ", ".join(f"`{key}`" for key in keys)
        yield f"| {names} | {value} | {' '.join((rule.__doc__ or '').split())} |"
    yield ""
    yield "## Signs of a running broker\n"
    yield "With `--metrics host:port`.\n"
    yield "| sign | metric | why | what to do |"
    yield "|---|---|---|---|"
    for sign in SIGNS:
        yield f"| {sign.name} | `{sign.metric}` | {sign.why} | {sign.cure} |"
