from pathlib import Path

from docs.rooms import circle


def test_a_circle_through_an_import_in_a_function_is_found(tmp_path: Path) -> None:
    house = tmp_path / "house"
    house.mkdir()
    (house / "roof.py").write_text("from house.wall import WALL\n")
    (house / "wall.py").write_text("from house import floor\n")
    (house / "floor.py").write_text("FLOOR = 1\n")
    assert circle(house) == []

    (house / "floor.py").write_text("def lift():\n    from house.roof import ROOF\n")
    assert sorted(circle(house)[1:]) == ["house.floor", "house.roof", "house.wall"]
