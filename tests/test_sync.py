"""Setting up asks the package indexes that pip would ask, and an old Python is refused in words."""

import __future__

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

SOURCE = Path(__file__).parents[1] / "requirements" / "sync.py"


def test_uv_takes_packages_from_where_pip_would(monkeypatch: pytest.MonkeyPatch) -> None:
    spec = importlib.util.spec_from_file_location("sync", SOURCE)
    assert spec is not None
    assert spec.loader is not None
    sync = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(sync)
    monkeypatch.setattr(sync, "PYTHON", Path(sys.executable))
    monkeypatch.setenv("PIP_INDEX_URL", "https://example.org/packages")
    monkeypatch.setenv("PIP_FIND_LINKS", "/wheels\n/more")
    monkeypatch.setenv("UV_INDEX", "https://example.com/own")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "https://example.com/not")
    found = sync.uv_environment()
    assert found["UV_DEFAULT_INDEX"] == "https://example.org/packages"
    assert found["UV_FIND_LINKS"] == "/wheels,/more"
    assert found["UV_INDEX"] == "https://example.com/own"


def test_an_old_python_reads_it_as_far_as_its_refusal() -> None:
    """It runs before its version is known: no newer syntax, and no annotation that is evaluated."""
    source = SOURCE.read_text()
    ast.parse(source, feature_version=(3, 7))
    code = compile(source, str(SOURCE), "exec", dont_inherit=True)
    assert code.co_flags & __future__.annotations.compiler_flag
