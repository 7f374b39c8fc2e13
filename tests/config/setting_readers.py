"""Which modules of kbroker/ read a setting, by their syntax trees: a name as a constant, a name
composed by an f-string or `+` of constants in the same module, or an attribute of a topic's
settings.

Rows of the tables, checks between settings, and the modules that only describe or alter settings do
not count: they show a setting that nothing else may ever read.
"""

import ast
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

from kbroker.config.group import SYNONYM as GROUP_SYNONYM
from kbroker.config.group import bounds
from kbroker.config.topic import SYNONYM as TOPIC_SYNONYM

KBROKER = Path(__file__).parents[2] / "kbroker"
CLIENTS = ("cli", "protocol")
"""The commands' own client settings, and messages whose fields have the same words."""
DESCRIBING = {"crosschecks", "docs", "describe", "alter", "inert", "removed", "close_names"}
WRITING = {"kafka_properties"}
"""Modules that write settings for Apache Kafka."""
NAMES_ONLY = {"SYNONYM", "_SAME", "_SYNONYMS"}
ANY = "\0"


class Mentions(ast.NodeVisitor):
    """What a module mentions. constants: whole strings. composed: texts with ANY where a part is
    not constant. attributes: names after a dot."""

    def __init__(self, module: ast.Module) -> None:
        self.constants: set[str] = set()
        self.composed: set[str] = set()
        self.attributes: set[str] = set()
        self._known = dict(_named_constants(module))
        self.visit(module)

    def visit_Expr(self, node: ast.Expr) -> None:
        if not isinstance(node.value, ast.Constant):  # else a docstring
            self.generic_visit(node)

    def visit_Call(self, node: ast.Call) -> None:
        if not (isinstance(node.func, ast.Name) and node.func.id == "Setting"):
            self.generic_visit(node)

    def visit_Assign(self, node: ast.Assign) -> None:
        names = {target.id for target in node.targets if isinstance(target, ast.Name)}
        if not names & NAMES_ONLY:
            self.generic_visit(node)

    def visit_Constant(self, node: ast.Constant) -> None:
        if isinstance(node.value, str):
            self.constants.add(node.value)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self.attributes.add(node.attr)
        self.generic_visit(node)

    def visit_JoinedStr(self, node: ast.JoinedStr) -> None:
        self.composed.add(self._text(node))
        self.generic_visit(node)

    def visit_BinOp(self, node: ast.BinOp) -> None:
        if isinstance(node.op, ast.Add):
            self.composed.add(self._text(node))
        self.generic_visit(node)

    def _text(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=str() as text):
                return text
            case ast.Name(id=name) if name in self._known:
                return self._known[name]
            case ast.JoinedStr(values=parts):
                return "".join(map(self._text, parts))
            case ast.FormattedValue(value=part):
                return self._text(part)
            case ast.BinOp(left=left, op=ast.Add(), right=right):
                return self._text(left) + self._text(right)
        return ANY


def _named_constants(module: ast.Module) -> Iterator[tuple[str, str]]:
    """Names at the top of a module that stand for a text."""
    for node in module.body:
        match node:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=str() as text)):
                yield name, text
            case ast.AnnAssign(target=ast.Name(id=name), value=ast.Constant(value=str() as text)):
                yield name, text


def sources(root: Path = KBROKER) -> Iterator[Path]:
    """The modules that count as readers."""
    for path in sorted(root.rglob("*.py")):
        room, *_ = path.relative_to(root).parts
        describes = room == "config" and path.stem in DESCRIBING
        if room not in CLIENTS and path.stem not in WRITING and not describes:
            yield path


class Readers:
    """The readers of settings in modules."""

    def __init__(self, paths: Iterable[Path]) -> None:
        self._constant: dict[str, set[str]] = {}
        self._attribute: dict[str, set[str]] = {}
        self._composed: list[tuple[re.Pattern[str], set[str], str]] = []
        for path in paths:
            mentions = Mentions(ast.parse(path.read_text()))
            for constant in mentions.constants:
                self._constant.setdefault(constant, set()).add(str(path))
            for attribute in mentions.attributes:
                self._attribute.setdefault(attribute, set()).add(str(path))
            for text in mentions.composed:
                if "." in text and " " not in text:
                    pattern = re.compile("(.+)".join(map(re.escape, text.split(ANY))))
                    self._composed.append((pattern, mentions.constants, str(path)))

    def of(self, setting: str) -> set[str]:
        """The modules that name a setting. Each part that is not constant where the name is
        composed must be a constant elsewhere in the module."""
        composed = {
            path
            for pattern, constants, path in self._composed
            if (found := pattern.fullmatch(setting)) and constants.issuperset(found.groups())
        }
        return composed | self._constant.get(setting, set())

    def of_topic(self, setting: str) -> set[str]:
        """The modules that name a topic's setting, or read the attribute of TopicConfig."""
        return self.of(setting) | self._attribute.get(setting.replace(".", "_"), set())

    def of_broker(self, setting: str) -> set[str]:
        """The modules that name a broker's setting, or the topic's or group's setting that takes
        its value from there or is bounded by it."""
        found = self.of(setting)
        for name, inherited in TOPIC_SYNONYM.items():
            if inherited == setting:
                found |= self.of_topic(name)
        for name, inherited in GROUP_SYNONYM.items():
            if inherited == setting or setting in bounds(name):
                found |= self.of(name)
        return found
