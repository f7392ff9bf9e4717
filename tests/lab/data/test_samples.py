"""The contact sheet of sample records."""

import numpy as np
import pytest

from regiontalk.errors import DataError
from regiontalk.io.files import json_line
from regiontalk.lab.data import samples
from regiontalk.lab.data.records import Record, TrueRegion


def write(folder, records):
    (folder / "annotations.jsonl").write_bytes(
        b"".join(json_line(record.to_dict()) for record in records)
    )
    return folder


def test_samples_come_from_all_over_the_data_set(tmp_path, scene_path, monkeypatch):
    drawn = []
    monkeypatch.setattr(
        samples, "draw_record", lambda record, photo: drawn.append(record.more["n"]) or photo
    )
    records = [
        Record(scene_path.name, 96, 64, sentences=(f"Number {n} .",), more={"n": n})
        for n in range(100)
    ]
    sheet = samples.sample_sheet(write(tmp_path, records))
    assert len(drawn) == samples.SAMPLE_PHOTOS
    assert (drawn[0], drawn[-1]) == (0, 99)
    assert sheet.width > sheet.height


def test_every_box_of_a_plural_phrase_is_drawn(scene):
    several = ((5.0, 5.0, 20.0, 20.0), (60.0, 30.0, 90.0, 60.0))
    record = Record(
        "a.png", 96, 64, regions=(TrueRegion((5, 5, 90, 60), "two things", boxes_xyxy=several),)
    )
    changed = np.any(np.array(samples.draw_record(record, scene)) != np.array(scene), axis=2)
    assert changed[5, 5:20].any()
    assert changed[59, 60:90].any()
    assert not changed[5, 60:90].all()


def test_a_small_data_set_is_shown_whole_and_an_empty_one_refused(tmp_path, scene_path):
    folder = write(tmp_path, [Record(scene_path.name, 96, 64)])
    assert samples.sample_sheet(folder).width > 96
    with pytest.raises(DataError, match="no image in split test"):
        samples.sample_sheet(folder, "test")
