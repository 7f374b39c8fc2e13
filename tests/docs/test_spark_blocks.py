"""The Python of docs/validation.md reads the log directory that it names."""

import ast
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="`make venv-spark` brings it")

from pyspark.sql import DataFrame

from spark_validation.session import spark_session
from tests.docs.blocks import ROOT, Block, blocks
from tests.spark_validation.world import clean
from tests.spark_validation.world_files import write_log

pytestmark = pytest.mark.spark

OWN = "tests/docs/test_spark_blocks.py"
PAGE = ROOT / "docs" / "validation.md"


def frames(block: Block, names: dict[str, Any], **places: Path) -> list[DataFrame]:
    """Runs a block; the values of its lines that are not assigned."""
    text = block.text
    for name, place in places.items():
        text = text.replace(name, str(place))
    found = []
    for statement in ast.parse(text).body:
        if isinstance(statement, ast.Expr):
            found.append(eval(ast.unparse(statement), names))
        else:
            exec(ast.unparse(statement), names)
    return found


def test_the_python_of_the_page_reads_a_log(tmp_path: Path) -> None:
    topic = clean("orders", 1, "idempotent")
    write_log(tmp_path / "data", topic, topic.log)
    own = [block for block in blocks(PAGE) if (block.role, block.argument) == ("run by", OWN)]
    spark = spark_session(small=True)
    try:
        names: dict[str, Any] = {"spark": spark}
        places = {"DATA_DIR": tmp_path / "data", "SCRATCH": tmp_path}
        read = [frame for block in own for frame in frames(block, names, **places)]
        counts = [frame.count() for frame in read]
    finally:
        spark.stop()
    assert len(counts) == 4
    assert min(counts) > 0
    assert counts[0] == counts[1] == counts[2]
