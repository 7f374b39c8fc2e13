"""The generated part of docs/many-cores.md: measurements, predictions of the model, and its
errors."""

from collections.abc import Iterable, Sequence

from bench.many_cores.model import CONTROL, IO, NETWORK, PARENT, Counts, Model, errors, fit, wait_us
from bench.many_cores.observing import WORKS, Work
from bench.many_cores.samples import Samples
from kbroker.config.processes import default_counts

BEGIN, END = "<!-- written by bench.many_cores: begin -->", "<!-- written by bench.many_cores: end -->"
CORES = (2, 4, 8, 16, 32, 64)
SHOWN = (NETWORK, IO, CONTROL, PARENT)


def section(samples: Samples) -> str:
    """The part between the marks."""
    works = [work for work in WORKS if samples.medians(work.name, fitted=True)]
    models = {work.name: fit(samples.medians(work.name, fitted=True)) for work in works}
    parts = [
        BEGIN,
        "\n".join(f"- {key}: {value}" for key, value in samples.machine.items()),
        "## Costs",
        _costs(works, models),
        "## Errors of the model",
        _errors(works, models, samples),
        "## Rates with the default counts",
        _rates(works, models),
        "## Ends of growth",
        _ends(works, models),
        END,
    ]
    return "\n\n".join(parts)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of Markdown."""
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def figure(value: float) -> str:
    """Three digits."""
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _costs(works: Sequence[Work], models: dict[str, Model]) -> str:
    rows = []
    for work in works:
        model = models[work.name]
        lines = [
            f"{figure(cost.alone_us)} + {figure(cost.per_peer_us)}" if cost.alone_us else "0"
            for cost in (model.costs[role] for role in SHOWN)
        ]
        rows.append([work.title, work.piece, *lines])
    return table(["work", "piece", *SHOWN], rows)


def _errors(works: Sequence[Work], models: dict[str, Model], samples: Samples) -> str:
    rows = []
    for work in works:
        model = models[work.name]
        for fitted in (True, False):
            observed = samples.medians(work.name, fitted=fitted)
            for each, error in zip(observed, errors(model, observed), strict=True):
                predicted = model.total_us(each.counts)
                together = 2e6 / (predicted + each.client_us)
                rows.append(
                    [
                        work.title,
                        str(each.counts),
                        "yes" if fitted else "no",
                        figure(each.total_us),
                        figure(predicted),
                        f"{error:+.0%}",
                        figure(each.rate),
                        figure(together),
                    ]
                )
    head = ["work", "network + IO", "fitted to", "µs measured", "µs predicted", "error"]
    return table([*head, "pieces/s measured", "predicted of two cores"], rows)


def _rates(works: Sequence[Work], models: dict[str, Model]) -> str:
    rows = []
    for work in works:
        model = models[work.name]
        cells = []
        for cores in CORES:
            rate, first = model.rate(Counts(*default_counts(cores)), cores)
            cells.append(f"{figure(rate)} ({first})")
        rows.append([work.title, work.piece, *cells])
    counts = [str(Counts(*default_counts(cores))) for cores in CORES]
    head = [f"{cores} cores ({count})" for cores, count in zip(CORES, counts, strict=True)]
    return table(["work", "pieces/s", *head], rows)


def _ends(works: Sequence[Work], models: dict[str, Model]) -> str:
    rows = []
    for work in works:
        model = models[work.name]
        cores, role = model.serial_end()
        best = model.best_counts(CORES[-1])
        rate, first = model.rate(best, CORES[-1])
        busiest = max(model.cost_us(each, best) for each in model.costs)
        rows.append(
            [
                work.title,
                f"{role}, at {figure(cores)} cores" if cores < 1000 else "no role of one process",
                f"{best}: {figure(rate)} ({first})",
                f"{figure(wait_us(busiest, 0.9))} µs",
            ]
        )
    head = ["work", "a single process ends growth", f"best counts of {CORES[-1]} cores, pieces/s"]
    return table([*head, "wait in its queue at 0.9"], rows)
