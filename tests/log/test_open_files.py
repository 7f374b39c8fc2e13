"""Open segment files: those that are deleted do not stay open."""

from pathlib import Path

from kbroker.log import files
from kbroker.log.open_files import OpenFiles


def test_deleted_files_are_closed_and_others_stay_open(tmp_path: Path) -> None:
    opened = OpenFiles()
    for base in (0, 5, 9):
        Path(files.path(str(tmp_path), base, files.LOG)).touch()
        opened.get(str(tmp_path), base, files.LOG)
    renamed = Path(files.path(str(tmp_path), 5, files.LOG))
    renamed.rename(f"{renamed}{files.DELETED}")  # it is deleted later, and is in use until then
    Path(files.path(str(tmp_path), 0, files.LOG)).unlink()
    opened.forget_deleted()
    assert opened.statistics() == (2, 2)
    assert opened.known(str(tmp_path), 0, files.LOG) is None
    Path(f"{renamed}{files.DELETED}").unlink()
    sent = opened.known(str(tmp_path), 5, files.LOG)
    opened.forget_deleted()
    assert opened.statistics() == (1, 2), "an answer still needs it"
    del sent
    assert opened.statistics() == (1, 1)
