"""A new answer table is empty, and its words describe its arrays."""

from kbroker.net.local_answers.answer_table import new_answer_table
from kbroker.net.rows import Answer, AnswerTable
from kbroker.net.rows import Context as ContextRow
from tests.net.contexts import new_context


def test_its_words_describe_its_arrays() -> None:
    words = new_context().words
    rows, index, pool = new_answer_table(words, ContextRow.TOPIC_PARTS, 16)
    table = words[ContextRow.TOPIC_PARTS : ContextRow.TOPIC_PARTS + AnswerTable.WORDS]
    assert rows.shape == (16, Answer.WORDS)
    assert table[AnswerTable.CAPACITY] == 16
    assert table[AnswerTable.ROWS] == rows.ctypes.data
    assert table[AnswerTable.INDEX] == index.ctypes.data
    assert table[AnswerTable.INDEX_ENTRIES] == len(index) > 16
    assert table[AnswerTable.POOL] == pool.ctypes.data
    assert table[AnswerTable.POOL_BYTES] == len(pool)
    assert table[AnswerTable.COUNT] == table[AnswerTable.POOL_USED] == 0
    assert not index.any()
