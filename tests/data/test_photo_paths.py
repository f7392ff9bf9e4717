"""Where photos lie."""

import pytest

from regiontalk.data.photo_paths import PhotoFinder


def test_photos_are_looked_for_in_the_usual_places(tmp_path, scene):
    (tmp_path / "images").mkdir()
    scene.save(tmp_path / "images" / "1.jpg")
    finder = PhotoFinder(tmp_path, ("", "images"))
    assert finder.locate("VG_100K/1.jpg") == (str(tmp_path / "images" / "1.jpg"), True)
    assert finder.locate("VG_100K/2.jpg") == (str(tmp_path / "VG_100K" / "2.jpg"), False)
    exact = PhotoFinder(tmp_path, ("", "images"), by_name=False)
    assert exact.locate("VG_100K/1.jpg") == (str(tmp_path / "VG_100K" / "1.jpg"), False)


def test_an_absolute_path_stays_as_it_is(tmp_path, scene_path):
    assert PhotoFinder(tmp_path / "elsewhere").locate(str(scene_path)) == (str(scene_path), True)


@pytest.mark.parametrize("name", ["a\0b.jpg", "\ud800.jpg", "x" * 5000])
def test_an_impossible_name_is_a_missing_photo(tmp_path, name):
    assert PhotoFinder(tmp_path).locate(name)[1] is False
