"""Only photos that the index has issued are served (row 16 of what it survives); texts stay texts
(row 17)."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from http_server import RunningServer, serving
from regiontalk.models.loading import load
from regiontalk.serve.tasks import Desk, about

SECRET = "etc/passwd"


def test_the_terms_of_the_model_are_told() -> None:
    model = load()
    assert model.runtime.info.terms is not None
    assert about(Desk(model, None))["terms"] == model.runtime.info.terms.summary


@pytest.mark.parametrize("call", ["", "/thumbnail", "/image"])
@pytest.mark.parametrize(
    "id",
    [
        *("1", "0", "-1", "0000000000000000", "x" * 1000, "%00", "%ff", "'%20OR%201=1", "..", "."),
        *(
            "../../" + SECRET,
            "..%2f..%2f" + SECRET,
            "%252e%252e%252f" + SECRET,
            "/" + SECRET,
            "%2fetc%2fpasswd",
        ),
        *("summer/scene.png", "summer%2Fscene.png", "file:%2f%2f%2fetc%2fpasswd"),
    ],
)
def test_guessed_ids_and_paths_are_not_found(server: RunningServer, id: str, call: str) -> None:
    answer = server.get(f"/api/photos/{id}{call}")
    assert (answer.status, bool(answer.error)) == (404, True)


@pytest.mark.parametrize(
    "path",
    [
        *(
            "/page/../settings.py",
            "/page/%2e%2e/settings.py",
            "/page/%252e%252e/settings.py",
            "/page//etc/passwd",
        ),
        *(
            "/page/..%2fsettings.py",
            "/page/%00",
            "/page/",
            "/page/app.js%00.css",
            "//etc/passwd",
            "/../../etc/passwd",
        ),
    ],
)
def test_only_files_of_the_page_are_served(server: RunningServer, path: str) -> None:
    answer = server.get(path)
    assert (answer.status, bool(answer.error)) == (404, True)


def test_a_photo_that_became_a_link_out_of_the_folder_is_not_served(
    server: RunningServer, album: Path
) -> None:
    """A link that is there before is not indexed at all. Pictures of other sizes may be kept from
    before, when the photo was a photo."""
    photos = {photo["path"]: photo["id"] for photo in server.get("/api/photos").json["photos"]}
    photo = album / "link.png"
    pixels = photo.read_bytes()
    photo.unlink()
    photo.symlink_to(album.parent / "elsewhere" / "private.png")
    try:
        assert server.get(f"/api/photos/{photos['link.png']}/image?size=333").status == 404
        assert server.get(f"/api/photos/{photos['link.png']}/file").status == 404
        assert server.post("/api/caption", id=photos["link.png"]).status == 404
    finally:
        photo.unlink()
        photo.write_bytes(pixels)
    assert server.get(f"/api/photos/{photos['place.jpg']}/image").status == 200


def test_names_are_told_as_they_are(server: RunningServer) -> None:
    paths = [photo["path"] for photo in server.get("/api/photos").json["photos"]]
    assert "<script>alert(2)&.png" in paths
    assert json.loads('"\\udcff.png"') in paths


PHOTOS = Path(__file__).parents[2] / "examples" / "photos"
CAT_BOX = "14,2,402,300"


@pytest.fixture(scope="module")
def teachable(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    """Two workers with the package's model, a folder with two photos, and a word book."""
    folder = tmp_path_factory.mktemp("photos")
    for name in ("chelsea", "coffee"):
        shutil.copy(PHOTOS / f"{name}.jpg", folder)
    book = tmp_path_factory.mktemp("books") / "words.npz"
    with serving(folder, "--words-book", book, "--workers", "2") as server:
        server.wait_for_index()
        yield server


@pytest.fixture
def ids(teachable: RunningServer) -> dict[str, Any]:
    photos = teachable.get("/api/photos").json["photos"]
    return {photo["path"]: photo["id"] for photo in photos}


def test_a_word_is_known_to_all_workers_at_once(
    teachable: RunningServer, ids: dict[str, Any]
) -> None:
    cat = ids["chelsea.jpg"]
    lesson = teachable.post("/api/teach", id=cat, xyxy=CAT_BOX, word="Chelsea").json
    assert (lesson["word"], lesson["added"], lesson["weak"]) == ("Chelsea", 1, True)
    for _ in range(4):  # whichever worker answers
        found = teachable.post("/api/caption", id=cat).json
        assert "Chelsea" in [region["caption"] for region in found["regions"]]
    (best, *_) = teachable.get("/api/search?q=Chelsea").json["hits"]
    assert (best["path"], best["likely"]) == ("chelsea.jpg", True)
    assert teachable.post("/api/find", id=cat, phrase="Chelsea").json["here"]
    shown = teachable.get(f"/api/photos/{cat}").json["regions"]
    assert "Chelsea" in [region["caption"] for region in shown]


def test_an_uploaded_photo_teaches_what_a_word_does_not_mean(teachable: RunningServer) -> None:
    cup = (PHOTOS / "coffee.jpg").read_bytes()
    box = "143,20,352,255"
    teachable.post("/api/teach", cup, "coffee.jpg", xyxy=box, word="mug")
    lesson = teachable.post("/api/teach", cup, "x.jpg", xyxy="0,0,99,99", word="mug", shows="no")
    assert (lesson.json["examples"], lesson.json["others"]) == (1, 1)


def test_words_are_listed_asked_about_and_forgotten(
    teachable: RunningServer, ids: dict[str, Any]
) -> None:
    teachable.post("/api/teach", id=ids["chelsea.jpg"], xyxy=CAT_BOX, word="Tabby")
    words = [known["word"] for known in teachable.get("/api/words").json["words"]]
    assert "Tabby" in words
    regions = teachable.get("/api/unsure?top=2").json["regions"]
    assert len(regions) == 2
    assert all(region["id"] in ids.values() for region in regions)
    assert all("/" not in region["path"] for region in regions)
    left = teachable.ask("DELETE", "/api/word?word=Tabby").json["words"]
    assert "Tabby" not in [known["word"] for known in left]


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        ({"word": "x" * 200}, 422),
        ({"word": "\x1b[2J"}, 422),
        ({"word": "a", "xyxy": "1,2"}, 422),
        ({"word": "a", "shows": "perhaps"}, 422),
        ({"word": "a", "id": "guessed"}, 404),
        ({}, 422),
    ],
)
def test_what_cannot_be_taught_is_refused(
    teachable: RunningServer, ids: dict[str, Any], fields: dict[str, str], status: int
) -> None:
    given = {"id": ids["chelsea.jpg"], "xyxy": CAT_BOX, **fields}
    assert teachable.post("/api/teach", **given).status == status


def test_words_that_were_not_taught_cannot_be_forgotten(teachable: RunningServer) -> None:
    assert teachable.ask("DELETE", "/api/word?word=spoon").status == 422
