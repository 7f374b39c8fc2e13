"""The bill of materials names what is locked, and the same lock gives the same document."""

import json

from release.sbom import bill

LOCKED = """# a comment
Zope==2.0 \\
    --hash=sha256:00
aiohttp==1.5.1 ; python_version < "4" \\
    --hash=sha256:11
"""


def test_every_locked_package_is_named_once_and_in_order() -> None:
    document = json.loads(bill("1.2.3", LOCKED))
    assert document["specVersion"] == "1.5"
    assert [one["purl"] for one in document["components"]] == ["pkg:pypi/zope@2.0", "pkg:pypi/aiohttp@1.5.1"]
    assert document["dependencies"][0]["dependsOn"] == [one["bom-ref"] for one in document["components"]]
    assert document["metadata"]["component"]["version"] == "1.2.3"


def test_the_same_lock_gives_the_same_bytes_and_another_one_another_number() -> None:
    assert bill("1", LOCKED) == bill("1", LOCKED)
    assert json.loads(bill("1", LOCKED))["serialNumber"] != json.loads(bill("2", LOCKED))["serialNumber"]
