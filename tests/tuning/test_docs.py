import inspect
import re

from kbroker.config.broker import BROKER
from tuning.broker.proposed import PROPOSED
from tuning.broker.rules import RULES
from tuning.docs import page
from tuning.knobs.registry import KNOBS
from tuning.knobs.settings import SETTINGS


def test_every_knob_and_every_rule_is_on_the_page() -> None:
    text = page()
    for room, knobs in KNOBS.items():
        assert f"## {room}" in text
        assert all(f"| {knob.name} |" in text for knob in knobs)
    assert all(rule.__doc__ for rule in RULES)


def test_every_row_names_its_setting_and_a_value() -> None:
    names = [knob.name for knobs in KNOBS.values() for knob in knobs]
    assert sorted(names) == sorted(SETTINGS)
    text = page()
    assert all(f"| {name} | `{setting}` | {value} | " in text for name, (setting, value) in SETTINGS.items())
    assert all(setting and value for setting, value in SETTINGS.values())


def test_every_rule_names_the_settings_that_it_proposes() -> None:
    assert [rule.__name__ for rule in RULES] == list(PROPOSED)
    for rule in RULES:
        code = inspect.getsource(rule)
        keys, value = PROPOSED[rule.__name__]
        assert value
        assert keys == tuple(key for key in keys if key in BROKER and f'"{key}"' in code)
        written = {key for key in re.findall(r'"([a-z]+(?:\.[a-z]+)+)"', code) if f'Proposal("{key}"' in code}
        assert written <= set(keys)
