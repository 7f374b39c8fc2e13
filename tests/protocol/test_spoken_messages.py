"""Generated messages are those that are used."""

import re
from pathlib import Path

import kbroker
from kbroker.api.registry import APIS as SERVED
from kbroker.protocol import messages
from kbroker.protocol.generate.files import NOT_SPOKEN
from kbroker.protocol.messages.index import APIS

ROOT = Path(kbroker.__file__).parents[1]
IMPORT = re.compile(r"from kbroker\.protocol\.messages(?:\.(\w+) import|\s+import \(?([\w\s,]+))")


def imported() -> set[str]:
    found: set[str] = set()
    for folder in ("kbroker", "tests", "bench", "loadtest", "spark_validation"):
        for source in (ROOT / folder).rglob("*.py"):
            for module, names in IMPORT.findall(source.read_text()):
                found |= (
                    {module} if module else {name.split()[0] for name in names.split(",") if name.split()}
                )
    return found


def test_every_generated_message_is_imported_or_served() -> None:
    generated = {path.stem for path in Path(messages.__file__).parent.glob("*.py")} - {"__init__", "index"}
    served = {APIS[key].module for key in SERVED}
    assert generated - imported() - served == set()


def test_messages_that_are_not_generated_are_neither_imported_nor_served() -> None:
    assert imported() & NOT_SPOKEN == set()
    assert not {api.module for api in APIS.values()} & NOT_SPOKEN
