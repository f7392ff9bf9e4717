"""Only photos that the index has issued are served (row 16 of what it survives); texts stay texts
(row 17)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from http_server import RunningServer
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
    """A link that is there before is not indexed at all."""
    photos = {photo["path"]: photo["id"] for photo in server.get("/api/photos").json["photos"]}
    photo = album / "link.png"
    pixels = photo.read_bytes()
    photo.unlink()
    photo.symlink_to(album.parent / "elsewhere" / "private.png")
    try:
        for path in (
            f"/api/photos/{photos['link.png']}/image",
            f"/api/photos/{photos['link.png']}/thumbnail",
        ):
            assert server.get(path).status == 404
        assert server.post("/api/caption", id=photos["link.png"]).status == 404
    finally:
        photo.unlink()
        photo.write_bytes(pixels)
    assert server.get(f"/api/photos/{photos['place.jpg']}/image").status == 200


def test_names_are_told_as_they_are(server: RunningServer) -> None:
    paths = [photo["path"] for photo in server.get("/api/photos").json["photos"]]
    assert "<script>alert(2)&.png" in paths
    assert json.loads('"\\udcff.png"') in paths
