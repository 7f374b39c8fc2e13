"""The house rules that no other tool checks: sizes, generated files, names, what must not be in the
repo."""

import re
import sys
from pathlib import Path

import pytest

from docs import rooms
from docs.generate import stale
from docs.generated import GENERATED
from tests.mirrors import Mirrors, listed
from tests.sources import GENERATED_FOLDERS, definitions, text_of, tracked

ROOT = Path(__file__).parents[1]
MAX_LINES = 400

# Files that may be longer, each with its reason. Generated files are exempt as a whole.
LONGER: dict[str, str] = {}
MAX_FUNCTION_LINES = 50
MIRRORS_LISTED = 35
MAX_FLAT = 20  # modules of a package that are in none of its rooms
MAX_CONSTANTS = 100

# Functions that are still longer, each with its reason. The table may only shrink. All are kernels:
# a part that takes arrays is not compiled into its caller, and costs up to as much as the whole.
ARRAYS = "one loop over arrays that share most of its local words"
CALLS = "a part would take and return all of its positions"
LONG_FUNCTIONS: dict[str, str] = {
    "kbroker/cleaner/retain_kernel.py::_decide": ARRAYS,
    "kbroker/io/append/append_kernel.py::plan": ARRAYS,
    "kbroker/io/append/append_kernel.py::plan_append": "one decision, in Kafka's order, over six arrays",
    "kbroker/io/append/drain_kernel.py::drain": "four passes over the same thirteen arrays",
    "kbroker/io/append/group_commit_kernel.py::take_synced": ARRAYS,
    "kbroker/io/replication/copy_kernel.py::copy_batches": ARRAYS,
    "kbroker/kernels/batches.py::scan": ARRAYS,
    "kbroker/net/produce/admit_kernel.py::admit": CALLS,
    "kbroker/net/produce/admit_kernel.py::scan": CALLS,
    "spark_validation/scale/batch_kernel.py::write_batches": ARRAYS,
    "spark_validation/segments/record_kernels.py::decode": ARRAYS,
}

# Words that the glossary of CONTRIBUTING.md replaces, in code and pages.
REFUSED_WORDS = re.compile(
    r"\btold\b|\balike\b|\bcan not\b|\bstanding answers?\b|\bwish(es)?\b|\bhand(s|ed|ing)? on\b"
    r"|\bin (whatever|every? other) company\b|\bbe_modest\b|\bcomplain(s|ts?)?\b"
    r"|\bunder way\b|\bentitled\b|\banew\b|\bat hand\b|\bnone the worse\b|\bother ones\b"
    r"|\b(nobody|no one)'s\b|(?<!\.)\btells?\b|\btelling\b|\bto be had\b|\bhurdles?\b|\bbeyond doubt\b"
    r"|\bt(ake|akes|ook|aken) away\b|\blook(s|ed) after\b|\bgoes the old way\b"
    r"|\bwhoever\b|\bsomebody\b|\bin the midst\b|\b(goes|going|went) on\b(?!_)",
    re.IGNORECASE,
)
# In kbroker/ and docs/ alone.
REFUSED_HERE = re.compile(r"\blook(s|ed|ing)? at\b", re.IGNORECASE)
# Headings of pages are nouns, never questions.
ASKING_HEADING = re.compile(r"#{2,} (What|How|Who) ")
ASKING_DOCSTRING = re.compile(r'^ *"""(What|How|Who|Which|Where) ')
WHETHER_OF_NOTHING = re.compile(r'-> None:\n *"""(Whether .*)')
# A fragment whose noun is elsewhere: "Of a batch" for "Records of a batch".
NOUNLESS_DOCSTRING = re.compile(r'^ *"""(Of|By|For|From|Until|Those|To|The same|So many|So much)\b')
# The same in names: a bound is MAX_ or MIN_ of something.
REFUSED_IN_NAMES = re.compile(
    r"(?<![A-Za-z])(told|tell|alike|entitled|complain|under_way|has_left|mortal|rung)(?![A-Za-z])"
    r"|\b_?(MOST|LEAST|LONGEST|SHORTEST)(_[A-Z]|\b)|(?<![A-Za-z])(NOBODY|TOLD)(?![A-Za-z])",
)
# Variables, functions and classes of all trees have none of these words; those of tests may have a
# few.
EVERYWHERE = "told|alike|wish|wishes|wanted|anew|whoever|go_on|goes_on|going_on"
REFUSED_IDENTIFIER = re.compile(rf"(?:^|_)({EVERYWHERE}|tells|nobody|somebody)(?:_|$)")
REFUSED_IN_TESTS = re.compile(rf"(?:^|_)({EVERYWHERE})(?:_|$)|^test_what_")
# Rules that are the most specific ones come first; not a bound.
NAMES_THAT_MEAN_IT = ("MOST_SPECIFIC_FIRST",)
COMMENT_OR_DOCSTRING = re.compile(r'^ *""".*?"""|(?:^| )# .*?$', re.DOTALL | re.MULTILINE)
KAFKAS_OWN_TEXTS = re.compile(r"can not be null for version|Controllers can not be asked")

# Rooms whose name is also a standard module's; they are only ever imported as kbroker.<name>.
ROLE_NAMES = {"kbroker/http", "kbroker/io"}


# Tests of what lies beside kbroker/, and kinds of test that cross its packages.
OTHER_TESTS = {
    "attack",
    "bench",
    "broken",
    "chaos",
    "compat",
    "crash",
    "docs",
    "fuzz",
    "loadtest",
    "models",
    "mutants",
    "peer",
    "release",
    "spark_validation",
    "tuning",
}


def test_every_file_keeps_to_its_budget() -> None:
    long = {
        name: lines
        for name in tracked(".py")
        if not name.startswith(GENERATED_FOLDERS) and name not in GENERATED and name not in LONGER
        if (lines := len((ROOT / name).read_text().splitlines())) > MAX_LINES
    }
    assert not long, f"over {MAX_LINES} lines, split by noun: {long}"


def test_exceptions_from_the_budget_are_still_needed() -> None:
    files = set(tracked(".py"))
    needless = [name for name in LONGER if name not in files or _lines(name) <= MAX_LINES]
    assert not needless


def test_every_function_keeps_to_its_budget() -> None:
    new = long_functions() - LONG_FUNCTIONS.keys()
    assert not new, f"over {MAX_FUNCTION_LINES} lines, split by noun: {new}"


def test_listed_functions_are_still_too_long() -> None:
    short = LONG_FUNCTIONS.keys() - long_functions()
    assert not short, f"take these out of LONG_FUNCTIONS: {short}"


def test_every_test_function_has_a_name_of_several_words() -> None:
    """A subject and a verb at least: `test_ring_wraps`, never `test_ring`."""
    short = {
        f"{file}::{name}"
        for file, _, name, lines in definitions()
        if file.startswith("tests/") and Path(file).name.startswith("test_")
        if lines and name.startswith("test_") and name.count("_") < 2
    }
    assert not short, "a test's name states the promise: subject and verb"


def test_every_folder_of_tests_mirrors_a_package_or_is_listed() -> None:
    folders = {
        Path(name).parts[1] for name in tracked(".py") if name.startswith("tests/") and name.count("/") > 1
    }
    packages = {
        Path(name).parts[1] for name in tracked(".py") if name.startswith("kbroker/") and name.count("/") > 1
    }
    assert not folders - packages - OTHER_TESTS


def test_every_module_with_logic_has_a_test_module_that_mirrors_it() -> None:
    mirrors = Mirrors([name for name in tracked(".py") if name.startswith(("kbroker/", "tests/"))])
    without = {module for module in mirrors.modules() if mirrors.of(module) is None}
    table = listed()
    assert not without - set(table), "write tests/<package>/<room>/test_<module>.py"
    assert not set(table) - without, "take these out of tests/mirrors.txt: they have a mirror, or are gone"
    assert not [test for test in table.values() if not (ROOT / test).is_file()]
    assert len(table) <= MIRRORS_LISTED, "the list may only shrink"


@pytest.mark.parametrize(("package", "most"), [("net", 100), ("io", 90)])
def test_imports_between_rooms_stay_few(package: str, most: int) -> None:
    found = rooms.figures(package)
    assert found.rooms <= most, "move the thing to its room: python -m docs.rooms counts"


@pytest.mark.parametrize("package", rooms.PACKAGES)
def test_few_modules_of_a_package_are_in_none_of_its_rooms(package: str) -> None:
    assert rooms.figures(package).flat <= MAX_FLAT


def test_every_room_says_who_may_call_it_and_in_which_process_it_runs() -> None:
    silent = [
        name
        for name in tracked("__init__.py")
        if name.startswith(("kbroker/net/", "kbroker/io/", "kbroker/control/")) and name.count("/") > 2
        if not re.search(r"ay be called by|Only `[\w.]+` imports", text := (ROOT / name).read_text())
        or not re.search(r"\b[Rr]uns in\b", text)
    ]
    assert not silent, "a room's docstring: its contents, its callers, its process"


CALLERS = {"api": "APIs", "cli": "commands", "supervisor": "the supervisor"} | {
    package: f"the trunk of {package}" for package in rooms.PACKAGES
}


def test_a_room_is_called_by_those_that_its_docstring_names() -> None:
    for room, callers in rooms.callers().items():
        text = " ".join((ROOT / "kbroker" / room.replace(".", "/") / "__init__.py").read_text().split())
        said = re.findall(r"May be called by (.*?)\. ", text)[0]
        package = room.partition(".")[0]
        own = {name for name in callers if name.startswith(package) and f"every room of {package}" in said}
        assert not [name for name in callers - own if CALLERS.get(name, f"`{name}`") not in said], room
        assert not set(re.findall("`(.*?)`", said)) - callers, room


def test_a_package_says_who_calls_it_and_in_which_process_it_runs() -> None:
    for package, callers in rooms.package_callers().items():
        text = " ".join((ROOT / "kbroker" / package / "__init__.py").read_text().split())
        assert re.search(r"\b[Rr]uns? in\b", text), package
        said = re.findall(r"Called by (.*?)[.:] ", text)[0]
        assert {*re.findall(r"`(\w+)`", said)} == callers, package


def test_kernels_import_few_names_of_constants() -> None:
    assert rooms.constants() < MAX_CONSTANTS, "import their class or module: Slot.STATE, rb.CRC"


@pytest.mark.parametrize(
    "package", ["kbroker", "bench", "docs", "loadtest", "spark_validation", "tests", "tuning"]
)
def test_no_modules_import_each_other_in_a_circle(package: str) -> None:
    assert not rooms.circle(ROOT / package), "move what both need to a module below"


def test_tests_import_from_no_test_module() -> None:
    """What two test modules need is in a support module beside them. A program that a test starts
    is text, so lines count, not only statements."""
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in tracked(".py")
        if name.startswith("tests/")
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        if re.match(r"\s*(from|import) tests\.([\w.]+\.)?test_\w+", line)
    ]
    assert not found, "move the shared names to a support module, named by a noun"


def long_functions() -> set[str]:
    return {
        f"{file}::{name}"
        for file, _, name, lines in definitions()
        if file not in GENERATED and lines > MAX_FUNCTION_LINES
    }


def test_generated_files_are_fresh() -> None:
    assert not stale(), "make docs rewrites them"


def test_no_module_shadows_a_standard_one() -> None:
    """A script run by its path puts its folder first on sys.path: `logging.py` beside it would
    win."""
    tops = sys.stdlib_module_names
    clashes = [
        name
        for name in tracked(".py")
        if Path(name).stem in tops and Path(name).stem not in ("__init__", "__main__") and "/" in name
        if not name.startswith("tests/")
    ]
    folders = {
        str(Path(name).parent)
        for name in tracked("__init__.py")
        if Path(name).parent.name in tops and not name.startswith("tests/")
    }
    assert not clashes
    assert not folders - ROLE_NAMES


def test_no_catch_all_modules() -> None:
    vague = {"utils", "util", "helpers", "helper", "common", "manager", "misc"}
    assert not [name for name in tracked(".py") if Path(name).stem in vague]


def test_the_repo_names_no_registry_host_and_no_path_of_a_machine() -> None:
    hosts = re.compile(
        r"https?://[^\s\"'<>)]*(/simple\b|/maven2?\b|\.whl\b|\.jar\b|\.tgz\b|\.crate\b|/packages/[0-9a-f]{2}/)"
        r"|\b(pypi\.org|pythonhosted\.org|repo1?\.maven|crates\.io|registry\.npmjs|proxy\.golang)"
        r"|--(extra-)?index-url|--find-links"
    )
    machine = re.compile("|".join(("/ro" + "ot/", "/wo" + "rk/", "/ho" + r"me/\w+/", "/tm" + "p/w/")))
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in tracked()
        if name not in ("LICENSE", "tests/test_house.py")
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if hosts.search(line) or machine.search(line)
    ]
    assert not found


def test_the_glossary_is_kept() -> None:
    found = [
        f"{name}:{number}: {line.strip()[:100]}"
        for name in prose_files()
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if REFUSED_WORDS.search(KAFKAS_OWN_TEXTS.sub("", line)) or REFUSED_HERE.search(line)
    ]
    assert not found, "CONTRIBUTING.md, Words, has the words to use"


def test_comments_and_docstrings_of_other_trees_keep_to_the_glossary() -> None:
    found = [
        f"{name}: {prose[:100]}"
        for name in tracked(".py")
        if not name.startswith(("kbroker/", "docs/")) and name != "tests/test_house.py"
        for prose in COMMENT_OR_DOCSTRING.findall(text_of(name))
        if REFUSED_WORDS.search(" ".join(prose.split()))
    ]
    assert not found, "CONTRIBUTING.md, Words, has the words to use"


def test_headings_of_pages_are_nouns() -> None:
    found = [
        f"{name}:{number}: {line}"
        for name in tracked(".md")
        if name not in GENERATED
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if ASKING_HEADING.match(line)
    ]
    assert not found, 'name the thing, as "Promises" for "What is promised"'


def test_docstrings_name_the_thing() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in tracked(".py")
        if not name.startswith("tests/")
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if ASKING_DOCSTRING.match(line)
    ]
    assert not found, 'as "The target assignment of a member" for "What a member shall have"'


def test_docstrings_begin_with_a_noun_or_a_verb() -> None:
    found = [
        f"{name}:{number}: {line.strip()}"
        for name in tracked(".py")
        if not name.startswith("tests/")
        for number, line in enumerate(text_of(name).splitlines(), 1)
        if NOUNLESS_DOCSTRING.match(line)
    ]
    assert not found, 'as "Records of a batch" for "Of a batch", "Host -> limit" for "By host"'


def test_a_function_that_returns_nothing_does_not_say_whether() -> None:
    found = [
        f"{name}: {text}"
        for name in tracked(".py")
        if not name.startswith("tests/")
        for text in WHETHER_OF_NOTHING.findall(text_of(name))
    ]
    assert not found, 'as "Check that a member may commit. Raises KafkaError"'


def test_names_of_code_keep_to_the_glossary() -> None:
    found = [
        f"{name}:{number}: {word}"
        for name in tracked(".py")
        if name.startswith("kbroker/") and not name.startswith(GENERATED_FOLDERS)
        for number, line in enumerate((ROOT / name).read_text().splitlines(), 1)
        for word in re.findall(r"\w+", line.replace(".tell()", ""))
        if REFUSED_IN_NAMES.search(word) and word not in NAMES_THAT_MEAN_IT
    ]
    assert not found, "CONTRIBUTING.md, Words, has the words to use"


def test_new_names_keep_to_the_glossary() -> None:
    found = [
        f"{file}:{line}: {name}"
        for file, line, name, _ in definitions()
        if (REFUSED_IN_TESTS if file.startswith("tests/") else REFUSED_IDENTIFIER).search(name.lower())
    ]
    assert not found, "CONTRIBUTING.md, Words, has the words to use"


def prose_files() -> list[str]:
    """Code and pages under the glossary; generated messages have Kafka's own texts."""
    return [
        name
        for name in tracked()
        if name == "README.md" or name.startswith(("kbroker/", "docs/"))
        if not name.startswith(GENERATED_FOLDERS) and name.endswith((".py", ".md"))
    ]


def _lines(name: str) -> int:
    return len((ROOT / name).read_text().splitlines())
