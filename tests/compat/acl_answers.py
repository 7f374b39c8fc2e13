"""All answers of one broker to the ACL matrix, and a file of Apache Kafka's.

`tests/compat/recorded/acls.json` has the users, and for each question its different answers, each
with the numbers of the users who got it. `make record` writes it.
"""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.compat.acl_world import World
from tests.compat.raw import differences
from tests.compat.recorded import FOLDER, encode

RECORDED = FOLDER / "acls.json"
ASKER = "(who asks)"
"""Instead of the user's own name, which some answers have."""
SHOWN = 12
"""Questions of a report: enough to see what is wrong."""


class Answers:
    """Answers by question and user. Equal ones are kept once, as JSON."""

    def __init__(self) -> None:
        self._by_question: dict[str, dict[str, str]] = {}

    @classmethod
    def of(cls, world: World) -> "Answers":
        """Ask a broker everything."""
        made = cls()
        for question, user, answer in world.answers():
            text = _text(encode(answer)).replace(json.dumps(user), json.dumps(ASKER))
            made._by_question.setdefault(question, {})[user] = text
        return made

    @classmethod
    def read(cls, path: Path) -> "Answers":
        """What `write` wrote."""
        made = cls()
        recorded = json.loads(path.read_text())
        for question, groups in recorded["questions"].items():
            by_user = made._by_question[question] = {}
            for group in groups:
                by_user.update(
                    dict.fromkeys((recorded["users"][n] for n in group["users"]), _text(group["answer"]))
                )
        return made

    def write(self, path: Path) -> None:
        """One line for each question."""
        users = list(next(iter(self._by_question.values())))
        lines = [
            f"{json.dumps(question)}:{_text(_grouped(users, self._by_question[question]))}"
            for question in sorted(self._by_question)
        ]
        body = ",\n".join(lines)
        path.write_text(f'{{"users":{_text(users)},\n"questions":{{\n{body}\n}}}}\n')

    def count(self) -> int:
        """How many answers there are."""
        return sum(len(by_user) for by_user in self._by_question.values())

    def questions(self) -> Iterable[str]:
        return self._by_question

    def to(self, question: str) -> dict[str, str]:
        """The answers to a question by user, as JSON."""
        return self._by_question.get(question, {})


def _grouped(users: list[str], by_user: dict[str, str]) -> list[dict[str, Any]]:
    numbers: dict[str, list[int]] = {}
    for number, user in enumerate(users):
        numbers.setdefault(by_user[user], []).append(number)
    return [{"users": found, "answer": json.loads(answer)} for answer, found in numbers.items()]


def keep(kafka: Answers) -> None:
    """Record what Apache Kafka answered."""
    kafka.write(RECORDED)


def deviations(kafka: Answers, found: Answers) -> str:
    """The questions that were answered otherwise: how often, and how the first of those were; empty
    when there are none."""
    lines = []
    wrong = 0
    for question in sorted({*kafka.questions(), *found.questions()}):
        expected, got = kafka.to(question), found.to(question)
        users = [user for user in sorted({*expected, *got}) if expected.get(user) != got.get(user)]
        if not users:
            continue
        wrong += len(users)
        lines.append(f"{question}, {len(users)} users: {', '.join(users[:6])}")
        pair = [json.loads(answers.get(users[0], '"not asked"')) for answers in (expected, got)]
        lines += [f"    {line[:240]}" for line in differences(*pair)[:3]]
    if not wrong:
        return ""
    return "\n".join([f"{wrong} of {found.count()} answers differ", *lines[: 4 * SHOWN]])


def _text(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
