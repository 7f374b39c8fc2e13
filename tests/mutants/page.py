"""docs/mutants.md: the mutants that were tried, and the survivors with their reasons."""

from collections import Counter

from tests.mutants.ledger import KILLED, SURVIVED, TIMED_OUT, Ledger, Result, reasons

INTRODUCTION = """# Mutants

See which small changes of the code the fast tests detect, and which they miss.

`make mutants` changes one place of the broker at a time, in a copy: `<` becomes `<=`, `min` becomes
`max`, `and` becomes `or`, 0 becomes 1, a condition is always true, a call, an assignment or a
`raise` is dropped, a function returns nothing, two arguments change places. The tests that mirror the
module run first, then those that import it, then those that import its importers, up to 60 seconds
of CPU in all. Kernels run as plain Python (KBROKER_NO_KERNELS=1), so nothing is compiled. A mutant
is killed if a test fails, or takes longer than a minute.

<!-- not run: takes hours -->
```sh
make mutants COUNT=500 SEED=1
make mutants COUNT=20 MUTANTS='--only kbroker/control/groups'
make mutants MUTANTS='--again'
make mutants MUTANTS='--written'
```

The first command takes five to ten hours of one core; an interrupted run continues where it was.
The second draws from one package, the third tries the survivors again, the fourth tries the mutants
that were written by hand (`tests/mutants/written.csv`). `tests/mutants/results.csv` holds the
results, `tests/mutants/reasons.csv` the reasons for survivors; `make docs` writes this page from
both.
"""


def page() -> str:
    results = list(Ledger().results.values())
    excused = reasons()
    open_ones = [each for each in results if each.verdict == SURVIVED and each.key not in excused]
    kept = [each for each in results if each.verdict == SURVIVED and each.key in excused]
    lines = [INTRODUCTION, "## Results", "", *_table(results, excused), "", "## Survivors", ""]
    lines += ["No test detects these yet:", ""] if open_ones else ["None without a reason."]
    lines += [f"- {_line(each)}" for each in open_ones]
    if kept:
        lines += ["", "## Survivors with a reason", ""]
        lines += [f"- {_line(each)}. {excused[each.key]}" for each in kept]
    return "\n".join(lines) + "\n"


def _table(results: list[Result], excused: dict[tuple[str, ...], str]) -> list[str]:
    rooms: dict[str, Counter[str]] = {}
    for each in results:
        verdict = "excused" if each.verdict == SURVIVED and each.key in excused else each.verdict
        for room in (each.key[0].split("/")[1], "all"):
            rooms.setdefault(room, Counter())[verdict] += 1
    lines = [
        "| package | tried | killed | by time | survived, with a reason | survived |",
        "|---|---|---|---|---|---|",
    ]
    for room in sorted(rooms, key=lambda name: (name == "all", name)):
        of = rooms[room]
        cells = (of.total(), of[KILLED], of[TIMED_OUT], of["excused"], of[SURVIVED])
        lines.append(f"| {room} | {' | '.join(map(str, cells))} |")
    return lines


def _line(result: Result) -> str:
    module, function, _, before, after, _ = result.key
    return f"`{module.removeprefix('kbroker/')}`, `{function}`: `{_cut(before)}` becomes `{_cut(after)}`"


def _cut(text: str) -> str:
    text = text.replace("`", "'")
    return text if len(text) <= 70 else text[:67] + "..."
