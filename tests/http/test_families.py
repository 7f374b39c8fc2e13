"""The text of a scrape: names, types and values in both formats, and whose names are in it."""

import math
from typing import Any

import numpy as np
import pytest

from kbroker.http.families import BOUNDS, OWN, ROWS, Dialect, Families, number
from kbroker.http.series import Labels
from kbroker.metrics.bounds import EXPORTED, UPPER_NS
from kbroker.metrics.layout import HISTOGRAM_BUCKETS, HISTOGRAM_SUM, HISTOGRAM_WORDS

COUNTER = "kbroker_topic_in_bytes_total"
ALIAS = "kafka_server_brokertopicmetrics_bytesin_total"
GAUGE = "kbroker_purgatory_delayed"
HISTOGRAM = "kbroker_append_seconds"


def samples(families: Families, **options: Any) -> list[str]:
    """Lines that are no comments."""
    text = families.text(options.pop("openmetrics", False), **options).decode()
    return [line for line in text.splitlines() if line and not line.startswith("#")]


def types(families: Families, openmetrics: bool) -> dict[str, str]:
    lines = families.text(openmetrics).decode().splitlines()
    found = (line.split(" ") for line in lines if line.startswith("# TYPE "))
    return {name: word for _, _, name, word in found}


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0, "0"),
        (-5, "-5"),
        (2**63, "9223372036854775808"),
        (0.5, "0.5"),
        (1e300, "1e+300"),
        (np.int64(7), "7.0"),
        (np.float64(0.25), "0.25"),
        (True, "1.0"),
        (math.nan, "NaN"),
        (math.inf, "+Inf"),
        (-math.inf, "-Inf"),
    ],
)
def test_a_value_is_written_as_both_formats_have_it(value: float, text: str) -> None:
    assert number(value) == text


def test_a_sample_has_the_names_of_all_its_aliases() -> None:
    both, own = Families(kafka=True), Families(kafka=False)
    for each in (both, own):
        each.add(COUNTER, ("t",), 5)
    assert samples(both) == [f'{COUNTER}{{topic="t"}} 5', f'{ALIAS}{{topic="t"}} 5']
    assert samples(own) == [f'{COUNTER}{{topic="t"}} 5']


@pytest.mark.parametrize(
    ("dialect", "names"),
    [(Dialect.ALL, [COUNTER, ALIAS]), (Dialect.KBROKER, [COUNTER]), (Dialect.KAFKA, [ALIAS])],
)
def test_a_dialect_has_its_names(dialect: Dialect, names: list[str]) -> None:
    families = Families(kafka=True)
    families.add_all(COUNTER, Labels([("t",), ("u",)]), [1, 2.5], dialect)
    expected = [[f'{name}{{topic="t"}} 1', f'{name}{{topic="u"}} 2.5'] for name in names]
    assert samples(families) == [line for lines in expected for line in lines]


def test_no_name_of_kafka_is_written_without_them() -> None:
    families = Families(kafka=False)
    families.add_all(COUNTER, Labels([("t",)]), [1], Dialect.KAFKA)
    assert samples(families) == []
    families.add_all(COUNTER, Labels([("t",)]), [1])
    assert samples(families) == [f'{COUNTER}{{topic="t"}} 1']


def test_an_answer_in_one_dialect_has_no_families_of_the_other() -> None:
    families = Families(kafka=True)
    families.add(COUNTER, ("t",), 5)
    assert samples(families, dialect=Dialect.KAFKA) == [f'{ALIAS}{{topic="t"}} 5']
    assert not any(f"# TYPE {name} " in families.text(False, dialect=Dialect.KAFKA).decode() for name in OWN)


@pytest.mark.parametrize(
    "names",
    [(COUNTER,), (COUNTER.removesuffix("_total"),), ("other", f"{COUNTER.removesuffix('_total')}_sum")],
)
def test_requested_families_are_found_by_the_names_of_their_samples(names: tuple[str, ...]) -> None:
    families = Families(kafka=True)
    families.add(COUNTER, ("t",), 5)
    families.add(GAUGE, ("Fetch",), 3)
    assert samples(families, names=names) == [f'{COUNTER}{{topic="t"}} 5']


def test_a_counter_of_openmetrics_is_named_without_its_suffix() -> None:
    families = Families(kafka=False)
    plain, openmetrics = types(families, False), types(families, True)
    assert plain[COUNTER] == "counter"
    assert openmetrics[COUNTER.removesuffix("_total")] == "counter"
    assert COUNTER not in openmetrics
    assert plain[GAUGE] == openmetrics[GAUGE] == "gauge"
    assert families.text(True).endswith(b"# EOF\n")
    assert not families.text(False).endswith(b"# EOF\n")


def test_buckets_of_a_histogram_count_all_below_them() -> None:
    words = np.zeros(HISTOGRAM_WORDS, np.int64)
    last = EXPORTED[1][1]  # buckets up to the second bound
    words[0], words[last - 1], words[last], words[HISTOGRAM_BUCKETS - 1] = 1, 2, 4, 8
    words[HISTOGRAM_SUM] = 2_500_000_000
    families = Families(kafka=False)
    labels = tuple("x" for _ in ROWS[HISTOGRAM].shown_labels)
    families.add_histogram(HISTOGRAM, labels, words.tolist())
    values = [line.rsplit(" ", 1)[1] for line in samples(families, names=(HISTOGRAM,))]
    assert values == ["1", "3", *["7"] * (len(BOUNDS) - 2), "15", "15", "2.5"]
    assert UPPER_NS[last - 1] == pytest.approx(float(BOUNDS[1]) * 1e9)
    assert 'le="0.0001"}' in samples(families, names=(HISTOGRAM,))[0]


def test_quantiles_are_of_recent_times_and_of_all_without_any() -> None:
    recent, total = np.zeros(HISTOGRAM_WORDS, np.int64), np.zeros(HISTOGRAM_WORDS, np.int64)
    total[50], total[HISTOGRAM_SUM] = 4, 8_000_000
    name = next(each for each in ROWS if each not in OWN)
    families = Families(kafka=True)
    families.add_times_ms(name, {}, recent.tolist(), total.tolist())
    first = samples(families, names=(name,))
    recent[20] = 2
    families = Families(kafka=True)
    families.add_times_ms(name, {}, recent.tolist(), total.tolist())
    second = samples(families, names=(name,))
    assert [line.rsplit(" ", 1)[1] for line in first[-2:]] == ["4", "8.0"]
    assert first[-2:] == second[-2:]
    low, high = UPPER_NS[49] / 1e6, UPPER_NS[50] / 1e6
    assert all(low < float(line.rsplit(" ", 1)[1]) <= high for line in first[:-2])
    assert all(float(line.rsplit(" ", 1)[1]) <= UPPER_NS[20] / 1e6 for line in second[:-2])
