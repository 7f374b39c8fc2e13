"""Names and labels of series, as a scrape has them."""

from typing import Any

import pytest

from kbroker.http import series
from kbroker.http.families import ROWS
from kbroker.http.series import KeptLabels, Labels, Prefixes, escaped_help, labels_text, prefix

PLAIN = "kbroker_requests_total"


def test_texts_are_escaped_as_both_formats_require() -> None:
    assert labels_text(("a", "b"), ('x"y', "c\\d\ne")) == 'a="x\\"y",b="c\\\\d\\ne"'
    assert escaped_help('a "b" \\ \n', openmetrics=True) == 'a \\"b\\" \\\\ \\n'
    assert escaped_help('a "b" \\ \n', openmetrics=False) == 'a "b" \\\\ \\n'


def test_a_sample_without_labels_has_no_braces() -> None:
    assert prefix("n", ("a",), ("x",)) == 'n{a="x"} '
    assert prefix("n", (), ()) == "n "
    assert prefix("n", ("a",), ()) == "n "


def test_a_prefix_has_as_many_values_as_its_row_has_labels() -> None:
    prefixes = Prefixes(ROWS)
    labels = ROWS[PLAIN].shown_labels
    values = tuple(f"v{number}" for number in range(len(labels)))
    own, _ = prefixes.of(PLAIN, values)
    assert own == prefix(PLAIN, labels, values)
    assert prefixes.of(PLAIN, values)[0] is own
    for wrong in (values[1:], (*values, "x")):
        with pytest.raises(ValueError, match=PLAIN):
            prefixes.of(PLAIN, wrong)


def test_prefixes_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(series, "MAX_KEPT", 3)
    prefixes = Prefixes(ROWS)
    count = len(ROWS[PLAIN].shown_labels)
    for number in range(10):
        prefixes.of(PLAIN, (str(number),) * count)
        assert len(prefixes._kept) <= 3


def test_label_sets_are_kept_until_they_change() -> None:
    kept = KeptLabels()
    first = kept.of([("a",), ("b",)])
    assert kept.of([("a",), ("b",)]) is first
    other = kept.of([("a",), ("c",)])
    assert other is not first
    assert other.values == [("a",), ("c",)]


def test_each_name_of_a_metric_has_a_prefix_for_each_label_set() -> None:
    metric: Any = next(row for row in ROWS.values() if row.kafka and len(row.shown_labels) == 1)
    found = dict(Labels([("x",), ("y",)]).prefixes(metric))
    assert list(found) == [metric.name, metric.kafka]
    (label,) = metric.shown_labels
    assert found[metric.name] == [f'{metric.name}{{{label}="x"}} ', f'{metric.name}{{{label}="y"}} ']
    assert [len(each) for each in found.values()] == [2, 2]
