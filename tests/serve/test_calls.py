"""Every call, asked of a real server."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from hostile_files import encode
from PIL import Image

from conftest import draw_scene
from http_server import RunningServer

SCENE = encode(draw_scene(), "JPEG")


@pytest.fixture
def photos(server: RunningServer) -> dict[str, Any]:
    """The indexed photos by their paths."""
    return {photo["path"]: photo for photo in server.get("/api/photos").json["photos"]}


@pytest.fixture
def some(photos: dict[str, Any]) -> str:
    """An id."""
    id: str = photos["summer/scene.png"]["id"]
    return id


def test_health_tells_the_model_and_the_folder(server: RunningServer, album: Path) -> None:
    health = server.get("/api/health").json
    assert health["model"] == "complete"
    assert (health["folder"], health["photos"], health["problem"]) == (str(album), 5, None)


def test_an_uploaded_photo_gets_regions_within_the_limits_that_are_asked_for(
    server: RunningServer,
) -> None:
    found = server.post("/api/caption?top=2&threshold=0", SCENE, "a.jpg").json
    assert (found["schema"], found["path"], found["width"], found["height"]) == (
        "regiontalk/1",
        "a.jpg",
        96,
        64,
    )
    assert len(found["regions"]) == 2


def test_the_browsers_path_is_not_believed(server: RunningServer) -> None:
    assert server.post("/api/caption", SCENE, "C:\\fakepath/../x.jpg").json["path"] == "x.jpg"


def test_values_may_stand_in_the_form_or_in_the_query(server: RunningServer, some: str) -> None:
    in_form = server.post("/api/align", sentence="a red circle", id=some)
    in_query = server.ask("POST", f"/api/align?id={some}&sentence=a+red+circle")
    assert in_form.json == in_query.json
    assert in_form.json["path"] == "summer/scene.png"


def test_describe_says_as_many_sentences_as_are_asked_for(server: RunningServer, some: str) -> None:
    assert len(server.post("/api/describe?alternatives=2", id=some).json["alternatives"]) == 2


def test_find_says_whether_it_is_here(server: RunningServer, some: str) -> None:
    found = server.post("/api/find?threshold=0&top=2", id=some, phrase="a red xyzzy circle").json
    assert (found["phrase"], found["unknown"], len(found["regions"])) == (
        "a red xyzzy circle",
        ["xyzzy"],
        2,
    )
    assert isinstance(found["here"], bool)


def test_search_finds_what_the_index_has_and_names_unknown_words(
    server: RunningServer, photos: Any
) -> None:
    found = server.get("/api/search?q=a+red+xyzzy+circle&top=3").json
    assert found["unknown"] == ["xyzzy"]
    assert found["notes"] == ["The model does not know “xyzzy”."]
    assert found["searched"] == 5
    for hit in found["hits"]:
        assert photos[hit["path"]]["id"] == hit["id"]


def test_typing_mistakes_are_corrected_unless_the_query_is_meant_as_typed(
    server: RunningServer,
) -> None:
    found = server.get("/api/search?q=a+red+cirlce").json
    assert found["corrected"] == {"cirlce": "circle"}
    assert found["hits"] == server.get("/api/search?q=a+red+circle").json["hits"]
    found = server.get("/api/search?q=a+red+cirlce&as_typed=true").json
    assert (found["corrected"], found["unknown"]) == ({}, ["cirlce"])


def test_search_keeps_to_a_folder_and_to_dates(server: RunningServer) -> None:
    assert server.get("/api/search?q=circle&folder=summer").json["searched"] == 1
    assert server.get("/api/search?q=circle&before=1999").json["searched"] == 0


def test_like_leaves_the_photo_itself_out(server: RunningServer, some: str) -> None:
    found = server.post("/api/like", id=some, xyxy="1,2,40,40", top="10").json
    assert len(found["hits"]) == 4
    assert some not in [hit["id"] for hit in found["hits"]]


def test_offered_captions_have_hits_and_filter(server: RunningServer) -> None:
    offered = server.get("/api/captions").json["captions"]
    assert len(server.get("/api/captions?top=1").json["captions"]) == min(len(offered), 1)
    for one in offered:
        listed = server.get(f"/api/photos?caption={quote(one['caption'])}").json
        assert listed["total"] == len(listed["photos"]) == one["photos"]
        assert not server.get(f"/api/search?q={quote(one['caption'])}").json["none_fit"]
    assert server.get("/api/photos?caption=a+purple+zebra").json == {"total": 0, "photos": []}
    assert server.get("/api/health").json["photos"] == 5


def test_photos_come_in_pages(server: RunningServer, photos: Any) -> None:
    first, rest = (
        server.get("/api/photos?limit=2").json,
        server.get("/api/photos?limit=10&offset=2").json,
    )
    assert first["total"] == rest["total"] == 5
    assert [one["id"] for one in first["photos"] + rest["photos"]] == [
        one["id"] for one in photos.values()
    ]


def test_pictures_are_upright_and_say_nothing_of_where_they_were_taken(
    server: RunningServer, photos: Any
) -> None:
    for name, size in (("thumbnail", (64, 96)), ("image?size=48", (32, 48))):
        answer = server.get(f"/api/photos/{photos['place.jpg']['id']}/{name}")
        assert answer.headers["content-type"] == "image/jpeg"
        with Image.open(io.BytesIO(answer.body)) as picture:
            assert picture.size == size
            assert not picture.getexif()
        assert b"script" not in answer.body


def test_corrected_regions_replace_the_models_until_they_are_corrected_again(
    server: RunningServer, some: str
) -> None:
    address = f"/api/photos/{some}"
    assert not server.get(address).json["corrected"]
    for caption in ("a mistake", "a ball"):
        regions = [{"xyxy": [1, 2, 30.5, 40], "caption": caption}]
        saved = server.put(f"{address}/regions", {"regions": regions}).json
        assert saved == server.get(address).json
    assert saved["corrected"]
    assert [(region["caption"], region["xyxy"]) for region in saved["regions"]] == [
        ("a ball", [1, 2, 30.5, 40])
    ]


def test_a_dropped_photo_is_kept_with_its_regions(server: RunningServer, album: Path) -> None:
    regions = [{"xyxy": [0, 0, 96, 64], "caption": "a scene"}]
    for _ in range(2):
        saved = server.post("/api/records", SCENE, regions=json.dumps(regions)).json
    assert (saved["width"], saved["height"], saved["regions"][0]["caption"]) == (96, 64, "a scene")
    (copy,) = (album / ".regiontalk" / "corrections" / "photos").iterdir()
    assert copy.read_bytes() == SCENE


@pytest.mark.parametrize(
    "regions",
    [
        [{"xyxy": [1, 2, 1, 40], "caption": "no area"}],
        [{"xyxy": [1, 2, 300, 40], "caption": "outside"}],
        [{"xyxy": [1, 2, 30], "caption": "three numbers"}],
        [{"xyxy": [1, 2, 30, 40], "caption": " "}],
        [{"xyxy": [1, 2, 30, 40], "caption": "a", "more": 1}],
        [{"xyxy": [1, 2, 30, 40], "caption": "a" * 1001}],
        [{"xyxy": [1, 2, 30, 40], "caption": "a"}] * 1001,
        "all of it",
    ],
)
def test_wrong_corrections_are_refused(server: RunningServer, some: str, regions: Any) -> None:
    answer = server.put(f"/api/photos/{some}/regions", {"regions": regions})
    assert answer.status == 422
    assert answer.error


def test_metrics_count_requests(server: RunningServer) -> None:
    server.get("/api/health")
    text = server.get("/metrics").body.decode()
    assert 'regiontalk_requests_total{call="/api/health",status="200"}' in text
    assert "regiontalk_workers_lost_total 0" in text


def test_the_page_and_its_files_are_served(server: RunningServer) -> None:
    page = server.get("/")
    assert page.headers["content-type"].startswith("text/html")
    assert (
        server.get("/page/app.js")
        .headers["content-type"]
        .startswith(("text/javascript", "application/javascript"))
    )
