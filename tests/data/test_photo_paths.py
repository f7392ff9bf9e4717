"""Where photos lie, and how large they are."""

import pytest
from PIL import Image

from regiontalk import images
from regiontalk.data.photo_paths import PhotoFinder, upright_size
from regiontalk.errors import ImageError, ImageTooLarge


@pytest.mark.parametrize("orientation", range(1, 9))
def test_the_size_is_that_of_the_upright_photo(tmp_path, scene, orientation):
    path = tmp_path / "photo.jpg"
    exif = Image.Exif()
    exif[0x0112] = orientation
    scene.save(path, exif=exif)
    assert upright_size(str(path)) == images.open_photo(path).size


@pytest.mark.parametrize("name", ["photo.png", "photo.webp", "photo.gif", "photo.bmp"])
def test_other_kinds_of_photos_have_a_size_too(tmp_path, scene, name):
    scene.save(tmp_path / name)
    assert upright_size(str(tmp_path / name)) == scene.size


def test_what_is_no_photo_is_refused(tmp_path):
    path = tmp_path / "photo.jpg"
    path.write_text("not a photo")
    with pytest.raises(ImageError, match=r"photo\.jpg"):
        upright_size(str(path))


def test_a_jpeg_of_too_many_pixels_is_refused(tmp_path, scene, monkeypatch):
    path = tmp_path / "photo.jpg"
    scene.save(path)
    small = images.Limits(megapixels=0.001)
    monkeypatch.setattr(images, "Limits", lambda: small)
    monkeypatch.setattr(images, "open_photo", lambda source, open_photo=images.open_photo: open_photo(source, small))
    with pytest.raises(ImageTooLarge):
        upright_size(str(path))


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
