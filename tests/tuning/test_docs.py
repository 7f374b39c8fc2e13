from tuning.broker.rules import RULES
from tuning.docs import page
from tuning.knobs.registry import KNOBS


def test_every_knob_and_every_rule_is_on_the_page() -> None:
    text = page()
    for room, knobs in KNOBS.items():
        assert f"## {room}" in text
        assert all(f"| {knob.name} |" in text for knob in knobs)
    assert all(rule.__doc__ for rule in RULES)
