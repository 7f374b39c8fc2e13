"""axe-core in the console's page: what a reader with a keyboard, a screen reader or weak eyes
cannot use."""

import importlib.util
from pathlib import Path

from tests.http.console.browser import Browser

# All that axe-core checks by default: WCAG 2.2 A and AA, and its best practices. Of a long table
# its first rows: the others look the same, and 200 rows take it half a minute.
RUN = """axe.run({exclude: ['tbody tr:nth-child(n+21)']}, {resultTypes: ['violations']}).then(found =>
found.violations.flatMap(
  rule => rule.nodes.map(node => `${rule.impact} ${rule.id}: ${node.html.slice(0, 200)}: ${node.failureSummary}`)))"""
DESKTOP = (1280, 900)
PHONE = (360, 740)
# Width and colours: each of them changes what is shown.
LOOKS = [(size, scheme) for size in (DESKTOP, PHONE) for scheme in ("light", "dark")]


def axe_core() -> str:
    """The script of axe-core, which a Python package carries."""
    found = importlib.util.find_spec("axe_playwright_python")
    assert found is not None, "axe-playwright-python is missing: make venv"
    assert found.origin is not None
    return (Path(found.origin).parent / "axe.min.js").read_text()


def findings(browser: Browser) -> list[str]:
    """What is wrong on the page as it is now. The debugging pipe brings axe-core into it: the
    page's content security policy stays in force."""
    if not browser.run("'axe' in window"):
        browser.run(f"{axe_core()}; undefined")
    return [str(one) for one in browser.run(RUN)]


def findings_in_all_looks(browser: Browser) -> list[str]:
    """At desktop and phone width, light and dark; leaves the browser as a light desktop."""
    found = []
    for size, scheme in LOOKS:
        browser.size(*size)
        browser.scheme(scheme)
        found += [f"{size[0]} {scheme}: {one}" for one in findings(browser)]
    browser.size(*DESKTOP)
    browser.scheme("light")
    return found
