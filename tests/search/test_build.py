from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

import regiontalk
from conftest import draw_scene
from regiontalk.errors import IndexProblem, InputError
from regiontalk.model import Model
from regiontalk.search import build
from regiontalk.search.build import Progress, identify, see_here, update
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Where
from videos import write_video


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    folder = tmp_path / "photos"
    (folder / "trip").mkdir(parents=True)
    for number, name in enumerate(("a.png", "b.png", "trip/c.jpg")):
        draw_scene((96 + 8 * number, 64)).save(folder / name)
    return folder


def run(photos: Path, model: Model, workers: int = 1, prune: bool = False) -> dict[str, int]:
    """What an update did; what it did not do is left out."""
    store = SqliteStore(photos.parent / "index", identify(model))
    try:
        done = update(store, photos, "", see_here(model, workers), prune, lambda progress: None)
    finally:
        store.close()
    counts = {**vars(done), "skipped": len(done.skipped)}
    return {name: count for name, count in counts.items() if count}


def paths(photos: Path) -> list[str]:
    store = SqliteStore(photos.parent / "index")
    found = sorted(store.files())
    store.close()
    return found


def test_only_what_is_new_changed_or_moved_is_done(photos: Path, model: Model) -> None:
    assert run(photos, model, workers=2) == {"added": 3}
    assert run(photos, model) == {"unchanged": 3}
    os.utime(photos / "a.png", ns=(1, 1))
    assert run(photos, model) == {"unchanged": 3}  # the same bytes
    draw_scene((50, 50)).save(photos / "a.png")
    (photos / "b.png").rename(photos / "trip" / "moved.png")
    draw_scene((30, 80)).save(photos / "new.png")
    assert run(photos, model) == {"added": 1, "changed": 1, "moved": 1, "unchanged": 1}
    (photos / "new.png").unlink()
    assert run(photos, model) == {"removed": 1, "unchanged": 3}
    assert paths(photos) == ["a.png", "trip/c.jpg", "trip/moved.png"]


def place(region: regiontalk.Region) -> tuple[float, ...]:
    return tuple(round(side, 2) for side in region.xyxy)


def test_what_is_stored_is_what_the_model_says(photos: Path, model: Model) -> None:
    run(photos, model)
    store = SqliteStore(photos.parent / "index")
    (photo,) = store.read([1])
    found = model(photos / "a.png")
    look = model.look(photos / "a.png")
    codes = model.codes(look)
    np.testing.assert_allclose(
        [region.xyxy for region in photo.regions], codes.boxes_xyxy, rtol=1e-5
    )
    np.testing.assert_allclose(photo.raw_scores, codes.scores, rtol=1e-5)
    assert photo.regions[0].caption == ""
    told = {place(region): region.caption for region in found.regions}
    same = [region for region in photo.regions[1:] if place(region) in told]
    assert same
    assert all(region.caption == told[place(region)] for region in same)
    assert all(region.caption in {"", *told.values()} for region in photo.regions[1:])
    store.close()


def test_broken_and_hidden_files_do_not_stop_it(photos: Path, model: Model) -> None:
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no photo")
    (photos / "empty.png").touch()
    (photos / "._a.png").write_bytes(b"what macOS knows")
    (photos / "dangling.jpg").symlink_to("nowhere.jpg")
    (photos / "loop").symlink_to(photos)
    os.mkfifo(photos / "pipe.jpg")
    (photos / ".hidden").mkdir()
    draw_scene().save(photos / ".hidden" / "x.png")
    draw_scene().save(os.fsencode(photos) + b"/odd\xff\n.png")
    assert run(photos, model) == {"added": 4, "skipped": 4, "hidden": 1}
    draw_scene().save(photos / "broken.jpg")
    assert run(photos, model) == {"added": 1, "unchanged": 4, "skipped": 3, "hidden": 1}
    (photos / "broken.jpg").write_bytes(b"\xff\xd8\xff no photo any more")
    assert run(photos, model) == {"unchanged": 4, "skipped": 4, "hidden": 1}
    assert "broken.jpg" not in paths(photos)


def test_it_does_not_drop_most_photos_unasked(photos: Path, model: Model) -> None:
    run(photos, model)
    (photos / "a.png").unlink()
    (photos / "b.png").unlink()
    with pytest.raises(IndexProblem, match="2 of 3 photos are gone") as problem:
        run(photos, model)
    assert "--prune" in (problem.value.hint or "")
    assert len(paths(photos)) == 3
    assert run(photos, model, prune=True) == {"removed": 2, "unchanged": 1}


def test_photos_in_a_folder_that_cannot_be_read_stay(
    photos: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(photos, model)
    scan, stat = os.scandir, Path.stat

    def refuse(folder: str | Path) -> object:
        if str(folder).endswith("trip"):
            raise PermissionError(13, "Permission denied")
        return scan(folder)

    def refuse_status(path: Path, **options: bool) -> os.stat_result:
        if "trip" in path.parts:
            raise PermissionError(13, "Permission denied")
        return stat(path, **options)

    monkeypatch.setattr(os, "scandir", refuse)
    monkeypatch.setattr(Path, "stat", refuse_status)
    assert run(photos, model) == {"unchanged": 3, "skipped": 1}


def test_a_folder_without_photos_is_said(tmp_path: Path, model: Model) -> None:
    (tmp_path / "photos").mkdir()
    with pytest.raises(InputError, match="no photo there"):
        run(tmp_path / "photos", model)


def test_a_stopped_run_continues(
    photos: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("regiontalk.search.build.PHOTOS_PER_TRANSACTION", 1)
    store = SqliteStore(photos.parent / "index", identify(model))

    told: list[Progress] = []

    def stop(progress: Progress) -> None:
        told.append(progress)
        if progress.done == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        update(store, photos, "", see_here(model, 1), False, stop)
    store.close()
    assert [progress[:3] for progress in told] == [(0, 3, 0), (1, 3, 0), (2, 3, 0)]
    assert told[0].seconds_left is None
    assert all(progress.seconds_left for progress in told[1:])
    assert run(photos, model) == {"added": 1, "unchanged": 2}


def test_dates_are_the_cameras_or_the_files(photos: Path, model: Model) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2013:07:14 12:30:01"
    draw_scene().save(photos / "dated.jpg", exif=exif)
    os.utime(photos / "a.png", (0, 0))
    run(photos, model)
    store = SqliteStore(photos.parent / "index")
    words = store.vectors([1])[0][:1]
    found = {
        year: [
            photo.path
            for photo in store.read(store.word_scores(words, Where("", year, year)).ids.tolist())
        ]
        for year in ("1970", "2013")
    }
    store.close()
    assert found == {"1970": ["a.png"], "2013": ["dated.jpg"]}


def test_models_are_told_apart(model: Model, tiny_model: Path) -> None:
    assert identify(model) == identify(model)
    with pytest.raises(regiontalk.RegionTalkError, match="no head 'words'"):
        identify(regiontalk.load(tiny_model))


def test_photos_behind_links_out_of_the_folder_are_left_out(
    photos: Path, tmp_path: Path, model: Model
) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    draw_scene((40, 40)).save(elsewhere / "d.png")
    (photos / "file.png").symlink_to(elsewhere / "d.png")
    (photos / "folder").symlink_to(elsewhere)
    (photos / "inside.png").symlink_to(photos / "trip" / "c.jpg")
    assert run(photos, model) == {"added": 4, "outside": 2}
    assert paths(photos) == ["a.png", "b.png", "inside.png", "trip/c.jpg"]
    (photos / "a.png").unlink()  # a photo that was indexed is now elsewhere
    (photos / "a.png").symlink_to(elsewhere / "d.png")
    assert run(photos, model) == {"removed": 1, "unchanged": 3, "outside": 3}


def test_a_linked_folder_of_photos_is_indexed_itself(
    photos: Path, tmp_path: Path, model: Model
) -> None:
    (tmp_path / "link").symlink_to(photos)
    store = SqliteStore(tmp_path / "index", identify(model))
    done = update(store, tmp_path / "link", "", see_here(model, 1), False, lambda _: None)
    store.close()
    assert (done.added, done.outside) == (3, 0)


def newest(photos: Path) -> list[tuple[str, str]]:
    store = SqliteStore(photos.parent / "index")
    found = store.read(store.newest(Where(), 0, 10).tolist())
    store.close()
    return [(photo.path, photo.taken[:4]) for photo in found]


def test_the_time_of_a_file_is_followed_and_that_of_the_camera_stays(
    photos: Path, model: Model
) -> None:
    exif = Image.Exif()
    exif.get_ifd(0x8769)[0x9003] = "2013:07:14 12:30:01"
    draw_scene().save(photos / "dated.jpg", exif=exif)
    run(photos, model)
    for name in ("a.png", "dated.jpg"):
        os.utime(photos / name, (0, 0))
    assert run(photos, model) == {"unchanged": 4}
    assert newest(photos)[-2:] == [("dated.jpg", "2013"), ("a.png", "1970")]
    assert run(photos, model) == {"unchanged": 4}


@pytest.mark.parametrize(("year", "known"), [(1902, "1902"), (2200, "2200"), (2400, "2262")])
def test_a_clock_may_be_anywhere(photos: Path, model: Model, year: int, known: str) -> None:
    """Nanoseconds of eight bytes end in 2262."""
    seconds = round((year + 0.5 - 1970) * 31_556_952)
    os.utime(photos / "a.png", (seconds, seconds))
    assert run(photos, model) == {"added": 3}
    assert ("a.png", known) in newest(photos)
    os.utime(photos / "a.png")  # and back
    assert run(photos, model) == {"unchanged": 3}
    assert "a.png" in [path for path, taken in newest(photos) if taken > "2020"]


def test_a_year_that_no_calendar_has_is_the_last_one() -> None:
    assert build._to_date(1 << 70).startswith("9999")
    assert build._to_date(-(1 << 70)).startswith("0001")


def test_a_photo_that_becomes_a_pipe_is_skipped(
    photos: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After the folder was read, and after the photo was looked at for its kind."""
    make_plan, checked = build.make_plan, (photos / "a.png").stat()

    def swap(*arguments: object) -> build.Plan:
        plan = make_plan(*arguments)  # type: ignore[arg-type]
        (photos / "a.png").unlink()
        os.mkfifo(photos / "a.png")
        return plan

    stat = os.stat

    def stat_before(path: object, **options: object) -> os.stat_result:
        return checked if str(path).endswith("a.png") else stat(path, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(build, "make_plan", swap)
    assert run(photos, model) == {"added": 2, "skipped": 1}
    monkeypatch.undo()
    monkeypatch.setattr(os, "stat", stat_before)
    assert run(photos, model) == {"unchanged": 2, "skipped": 1}


def test_a_run_that_stops_at_a_touched_photo_is_made_good(
    photos: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(photos, model)
    os.utime(photos / "a.png", (0, 0))

    def stop(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(SqliteStore, "date", stop)
        with pytest.raises(KeyboardInterrupt):
            run(photos, model)
    run(photos, model)
    assert newest(photos)[-1] == ("a.png", "1970")


@pytest.fixture
def with_video(photos: Path) -> Path:
    write_video(photos / "clip.mp4", [draw_scene((64, 48)), Image.new("RGB", (64, 48), "red")])
    return photos


def test_the_frames_of_a_video_are_kept_up_to_date(with_video: Path, model: Model) -> None:
    photos, place = with_video, with_video / "clip.mp4"
    assert run(photos, model, workers=2) == {"added": 5}
    first, second = [path for path in paths(photos) if path.startswith("clip.mp4")]
    assert first == "clip.mp4#t=0"
    assert run(photos, model) == {"unchanged": 5}
    os.utime(place, ns=(1, 1))
    assert run(photos, model) == {"unchanged": 5}  # the same bytes
    assert run(photos, model) == {"unchanged": 5}
    place.rename(photos / "trip" / "film.mp4")
    assert run(photos, model) == {"moved": 2, "unchanged": 3}
    assert f"trip/film.mp4#t={second.partition('=')[2]}" in paths(photos)
    write_video(photos / "trip" / "film.mp4", [Image.new("RGB", (64, 48), "blue")])
    assert run(photos, model) == {"changed": 1, "removed": 1, "unchanged": 3}
    (photos / "trip" / "film.mp4").write_bytes(b"text")
    done = run(photos, model)
    assert done == {"skipped": 1, "unchanged": 3}
    (photos / "trip" / "film.mp4").unlink()
    assert run(photos, model) == {"unchanged": 3}
    assert len(paths(photos)) == 3


def test_a_deleted_video_leaves_the_index(with_video: Path, model: Model) -> None:
    run(with_video, model)
    (with_video / "clip.mp4").unlink()
    assert run(with_video, model) == {"removed": 2, "unchanged": 3}


def test_a_stopped_update_goes_on_within_a_video(
    with_video: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    see = build.see

    def stop(root: Path, model: Model, job: build.Job) -> build.Entry | build.Touched:
        if job.file.path.endswith("#t=0"):
            raise KeyboardInterrupt
        return see(root, model, job)

    monkeypatch.setattr(build, "see", stop)
    with pytest.raises(KeyboardInterrupt):
        run(with_video, model)
    monkeypatch.setattr(build, "see", see)
    assert len(paths(with_video)) == 4
    assert run(with_video, model) == {"added": 1, "unchanged": 4}


def test_without_the_extra_videos_are_left_out_with_one_line(
    with_video: Path, model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    run(with_video, model)
    monkeypatch.setattr("regiontalk.images.video.is_installed", lambda: False)
    store = SqliteStore(with_video.parent / "index", identify(model))
    done = update(store, with_video, "", see_here(model, 1), False, lambda progress: None)
    store.close()
    assert not done.skipped
    assert done.unchanged == 5  # what is indexed of it stays
    os.utime(with_video / "clip.mp4", ns=(1, 1))
    store = SqliteStore(with_video.parent / "index", identify(model))
    done = update(store, with_video, "", see_here(model, 1), False, lambda progress: None)
    store.close()
    assert done.skipped == [
        "left out 1 video: PyAV is not installed  (pip install 'regiontalk[video]')"
    ]
    assert done.unchanged == 5
