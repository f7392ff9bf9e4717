"""The folder is looked at while the server answers."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL.PngImagePlugin import PngInfo

import misbehaving
from conftest import draw_scene
from http_server import RunningServer, serving
from postgres_server import Server
from regiontalk.cli.main import run
from regiontalk.errors import IndexProblem
from regiontalk.models.loading import load
from regiontalk.search.index import Index
from regiontalk.serve.indexing import Indexing
from regiontalk.serve.settings import Settings


def wait(until: Callable[[], bool]) -> None:
    for _ in range(600):
        if until():
            return
        time.sleep(0.05)
    raise AssertionError


def children() -> set[str]:
    """Processes of this one, also those that have ended and that nobody waited for."""
    tasks = Path("/proc/self/task").glob("*/children")
    return {pid for file in tasks for pid in file.read_text().split()}


def test_a_lost_process_is_replaced_and_continues(tmp_path: Path) -> None:
    indexing = Indexing(Settings(tmp_path), misbehaving.index)
    indexing.begin(0)
    wait(lambda: indexing.progress is None)
    assert indexing.photos == 9
    indexing.close()


def test_one_that_is_lost_again_and_again_is_given_up(tmp_path: Path) -> None:
    before = children()
    indexing = Indexing(Settings(tmp_path), misbehaving.always_end)
    indexing.begin(5)
    wait(lambda: indexing.progress is None)
    assert indexing.photos == 5
    assert "ended early" in indexing.problem
    wait(lambda: children() <= before)
    indexing.close()


def test_what_was_looked_at_stays_and_new_photos_are_added(
    tmp_path: Path, aligning_model: Path
) -> None:
    draw_scene((64, 48)).save(tmp_path / "a.png")
    (tmp_path / "b.jpg").write_text("no photo")
    start = (tmp_path, "--model", aligning_model, "--workers", "1")
    with serving(*start) as server:
        assert server.wait_for_index()["photos"] == 1
        (first,) = server.get("/api/photos").json["photos"]
        assert server.stop() == 0
    draw_scene((48, 64)).save(tmp_path / "c.png")
    with serving(*start) as server:
        assert server.wait_for_index()["photos"] == 2
        assert first in server.get("/api/photos").json["photos"]
        assert server.get(f"/api/photos/{first['id']}/thumbnail").status == 200


def test_a_correction_goes_where_its_photo_goes(tmp_path: Path, aligning_model: Path) -> None:
    draw_scene((64, 48)).save(tmp_path / "a.png")
    start = (tmp_path, "--model", aligning_model, "--workers", "1")

    def listed(server: RunningServer) -> dict[str, Any]:
        for _ in range(100):  # a photo that is looked at again gets another id
            server.wait_for_index()
            photos = server.get("/api/photos").json["photos"]
            answers = {one["path"]: server.get(f"/api/photos/{one['id']}") for one in photos}
            if all(answer.status == 200 for answer in answers.values()):
                return {path: answer.json for path, answer in answers.items()}
        raise AssertionError(answers)

    with serving(*start) as server:
        regions = [{"xyxy": [1, 2, 30, 40], "caption": "a ball"}]
        photo = listed(server)["a.png"]
        assert server.put(f"/api/photos/{photo['id']}/regions", {"regions": regions}).status == 200
        assert listed(server)["a.png"]["corrected"]
        (tmp_path / "a.png").rename(tmp_path / "b.png")
        draw_scene((96, 64)).save(tmp_path / "a.png")
        assert server.stop() == 0
    with serving(*start) as server:
        photos = listed(server)
        assert [one["caption"] for one in photos["b.png"]["regions"]] == ["a ball"]
        assert (photos["b.png"]["corrected"], photos["b.png"]["replaced"]) == (True, False)
        assert (photos["a.png"]["corrected"], photos["a.png"]["replaced"]) == (False, False)
        text = PngInfo()
        text.add_text("Keywords", "a ball")
        draw_scene((64, 48)).save(tmp_path / "b.png", pnginfo=text)
        assert listed(server)["b.png"]["corrected"], "only its metadata have changed"
        draw_scene((48, 48)).save(tmp_path / "b.png")
        photo = listed(server)["b.png"]
        assert (photo["corrected"], photo["replaced"]) == (False, True)


def test_a_killed_server_leaves_what_a_new_one_completes(
    tmp_path: Path, aligning_model: Path
) -> None:
    """No lock is left, no process goes on, and the index is that of a clean run."""
    clean, killed = tmp_path / "clean", tmp_path / "killed"
    clean.mkdir()
    for number in range(40):
        draw_scene((64 + number, 48)).save(clean / f"{number}.png")
    shutil.copytree(clean, killed)
    options = ("--model", aligning_model, "--workers", "1")
    with serving(killed, *options) as server:
        wait(lambda: server.get("/api/photos").json["total"] > 0)
        server.process.kill()
        server.process.wait()
    with serving(killed, *options) as server:
        health = server.wait_for_index()
        assert (health["photos"], health["problem"]) == (40, None)
        assert server.stop() == 0
    model = load(aligning_model)
    Index.open(clean, model=model).update()
    hits = []
    for folder in (clean, killed):
        index = Index.open(folder, model=model)
        hits.append(
            [(Path(hit.path).name, hit.score) for hit in index.search("a red circle", top=40)]
        )
        index.close()
    assert sorted(hits[0]) == sorted(hits[1])


def test_a_folder_without_photos_and_one_that_cannot_be_written_now_are_served(
    tmp_path: Path, aligning_model: Path
) -> None:
    with serving(tmp_path, "--model", aligning_model, "--workers", "1") as server:
        health = server.wait_for_index()
        assert "no photo" in health["problem"]
        assert server.get("/api/photos").json == {"total": 0, "photos": []}
        assert server.get("/api/search?q=circle").json["none_fit"]
    index = Index.open(tmp_path)
    (index.place / "index.sqlite").write_bytes(b"no database" * 1000)
    with pytest.raises(IndexProblem):
        len(index)


def test_new_changed_and_deleted_photos_appear_without_a_restart(
    tmp_path: Path, aligning_model: Path
) -> None:
    for name in ("a", "b", "c"):
        draw_scene((64, 48)).save(tmp_path / f"{name}.png")
    with serving(tmp_path, "--model", aligning_model, "--workers", "1") as server:
        before = server.wait_for_index()
        ids = ids_of(server)
        draw_scene((80, 40)).save(tmp_path / "b.png")
        (tmp_path / "c.png").unlink()
        draw_scene((48, 64)).save(tmp_path / "new.png")
        server.wait_for_health(lambda health: health["updates"] > before["updates"])
        server.wait_for_health(lambda _: sorted(ids_of(server)) == ["a.png", "b.png", "new.png"])
        now = ids_of(server)
        assert now["a.png"] == ids["a.png"]
        assert now["b.png"] != ids["b.png"], "another address: no old picture is shown for it"
        assert server.get(f"/api/photos/{now['b.png']}").json["width"] == 80
        assert server.get(f"/api/photos/{now['new.png']}/thumbnail").status == 200


def ids_of(server: RunningServer) -> dict[str, str]:
    return {photo["path"]: photo["id"] for photo in server.get("/api/photos").json["photos"]}


def test_a_folder_that_disappears_while_it_is_watched_loses_nothing(
    tmp_path: Path, aligning_model: Path
) -> None:
    folder, away = tmp_path / "photos", tmp_path / "away"
    folder.mkdir()
    draw_scene((64, 48)).save(folder / "a.png")
    with serving(folder, "--model", aligning_model, "--workers", "1") as server:
        server.wait_for_index()
        ids = ids_of(server)
        folder.rename(away)
        health = server.wait_for_health(lambda health: health["problem"])
        assert f"{folder} is not there at the moment" in health["problem"]
        assert health["photos"] == 1
        assert server.get(f"/api/photos/{ids['a.png']}/thumbnail").status == 404
        regions = [{"xyxy": [1, 2, 30, 40], "caption": "a ball"}]
        answer = server.put(f"/api/photos/{ids['a.png']}/regions", {"regions": regions})
        assert (answer.status, "no longer" in answer.error) == (404, True)
        assert not folder.exists(), "saving a correction does not make the folder again"
        away.rename(folder)
        server.wait_for_health(lambda health: health["problem"] is None)
        assert ids_of(server) == ids
        for name in ("b", "c", "d"):
            draw_scene((48, 64)).save(folder / f"{name}.png")
        server.wait_for_health(lambda health: health["photos"] == 4)
        for name in ("a", "b", "c"):
            (folder / f"{name}.png").unlink()
        health = server.wait_for_health(lambda health: health["problem"])
        assert "3 of 4 photos are gone; the index was not changed" in health["problem"]
        assert health["photos"] == 4


def test_servers_share_an_index_in_a_data_base(
    aligning_model: Path, tmp_path: Path, postgres: Server
) -> None:
    """What one of them says of a photo, the other one says too; photos of other folders are not
    theirs to show."""
    own, foreign = tmp_path / "own", tmp_path / "foreign"
    for folder, size in ((own, (64, 48)), (own / "trip", (72, 48)), (foreign, (48, 64))):
        folder.mkdir()
        draw_scene(size).save(folder / "a.png")
    (own / "link.png").symlink_to(foreign / "a.png")
    options = ("--store", postgres.address, "--model", str(aligning_model))
    for folder, more in ((own, ["--rebuild"]), (foreign, [])):
        assert run(["index", str(folder), *options, "-q", *more]) == 0
    index = Index.open(foreign, model=load(aligning_model), store=postgres.address)
    (other,) = index.photos()
    index.close()
    with (
        serving(own, *options, "--workers", "1") as one,
        serving(own, *options, "--workers", "1") as two,
    ):
        assert one.wait_for_index()["photos"] == two.wait_for_index()["photos"] == 2
        found = one.get("/api/search?q=circle").json
        assert found == two.get("/api/search?q=circle").json
        assert [
            hit["path"] for hit in one.get("/api/search?q=circle&folder=trip").json["hits"]
        ] == ["trip/a.png"]
        ids = {photo["path"]: photo["id"] for photo in one.get("/api/photos").json["photos"]}
        assert sorted(ids) == ["a.png", "trip/a.png"]
        assert two.get(f"/api/photos/{ids['a.png']}/image").status == 200
        assert two.get(f"/api/photos/{other.id}/image").status == 404
        assert two.get(f"/api/photos/{other.id}").status == 404
        regions = [{"xyxy": [1, 2, 30, 40], "caption": "a ball"}]
        assert one.put(f"/api/photos/{ids['a.png']}/regions", {"regions": regions}).status == 200
        assert two.get(f"/api/photos/{ids['a.png']}").json["corrected"]
        draw_scene((80, 48)).save(own / "new.png")
        assert run(["index", str(own), *options, "-q"]) == 0
        assert two.get("/api/photos").json["total"] == two.get("/api/health").json["photos"] == 3


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["DIR", "--store", "postgresql://me:secret@127.0.0.1:1/photos"], 5),
        (["DIR", "--store", "postgresql://here/photos", "--index", "DIR"], 2),
        (["--store", "postgresql://here/photos"], 2),
    ],
)
def test_a_store_that_cannot_be_served_is_said(
    arguments: list[str], code: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = [str(tmp_path) if one == "DIR" else one for one in arguments]
    assert run(["serve", "--port", "0", "--no-open", *given]) == code
    said = capsys.readouterr().err
    assert said.splitlines()[-1].startswith("regiontalk: ")
    assert "secret" not in said
