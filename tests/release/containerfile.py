"""The instructions of release/Containerfile, stage by stage."""

import json
import re
from dataclasses import dataclass
from pathlib import Path

CONTAINERFILE = Path(__file__).parents[2] / "release" / "Containerfile"
FROM = re.compile(r"(?P<image>\S+)(?: AS (?P<name>\S+))?$")


@dataclass(frozen=True, slots=True)
class Stage:
    """name: that of `FROM image AS name`, empty for the last. steps: instruction and its text."""

    name: str
    steps: tuple[tuple[str, str], ...]

    def value(self, instruction: str) -> str:
        """The text of an instruction that the stage has once."""
        (found,) = (text for name, text in self.steps if name == instruction)
        return found

    def words(self, instruction: str) -> list[str]:
        """The words of an instruction in JSON, such as CMD."""
        return list(json.loads(self.value(instruction)))

    @property
    def health(self) -> list[str]:
        """The command of the health check."""
        return list(json.loads(self.value("HEALTHCHECK").partition("CMD ")[2]))


def stages(text: str = "") -> list[Stage]:
    """All stages; by default those of the project's file."""
    lines = [line for line in (text or CONTAINERFILE.read_text()).splitlines() if not line.startswith("#")]
    found: list[tuple[str, list[tuple[str, str]]]] = []
    for line in "\n".join(lines).replace("\\\n", " ").splitlines():
        instruction, _, argument = line.strip().partition(" ")
        if instruction == "FROM":
            matched = FROM.match(argument)
            assert matched is not None, line
            found.append((matched["name"] or "", []))
        elif instruction:
            found[-1][1].append((instruction, argument.strip()))
    return [Stage(name, tuple(steps)) for name, steps in found]
