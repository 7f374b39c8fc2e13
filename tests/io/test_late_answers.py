"""An answer without room in its ring is kept until there is room, and is given once."""

from kbroker.io.late_answers import LateAnswers


class Ring:
    """A completion ring with room for some answers."""

    def __init__(self, room: int) -> None:
        self.room = room
        self.answered: list[tuple[int, int]] = []

    def complete(self, token: int, error: int) -> bool:
        if len(self.answered) >= self.room:
            return False
        self.answered.append((token, error))
        return True


def test_an_answer_with_room_is_given_at_once() -> None:
    ring = Ring(1)
    answers = LateAnswers(ring.complete)
    answers.answer(7, 0)
    assert ring.answered == [(7, 0)]
    assert not answers.waiting


def test_answers_without_room_are_given_later_in_order_and_once() -> None:
    ring = Ring(0)
    answers = LateAnswers(ring.complete)
    for token in (7, 8, 9):
        answers.answer(token, 56)
    answers.retry()
    assert answers.waiting
    assert ring.answered == []
    ring.room = 2
    answers.retry()
    assert answers.waiting
    ring.room = 9
    answers.retry()
    answers.retry()
    assert ring.answered == [(7, 56), (8, 56), (9, 56)]
    assert not answers.waiting
