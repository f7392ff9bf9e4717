"""A user's own table."""

from pathlib import Path

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "regions.csv"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@pytest.fixture
def photos(tmp_path, scene) -> Path:
    (tmp_path / "photos").mkdir()
    for name in ("a.jpg", "b.png"):
        scene.save(tmp_path / "photos" / name)
    return tmp_path / "photos"


def test_a_table_becomes_records(photos, tmp_path):
    table = write(
        tmp_path,
        "path,x0,y0,x1,y1,phrase,split\n"
        "photos/a.jpg,10,5,40.5,25,a yellow sun,train\n"
        "photos/b.png,0,0,96,64,a drawing,val\n"
        '"photos/a.jpg",80,50,120,90,"a red house, on grass",train\n'
        "photos/a.jpg,,,,,A house stands in the sun.,train\n"
        "\n",
    )
    done = prepare("csv", table, tmp_path / "out")
    first, second = Dataset(tmp_path / "out")
    assert first.image == str(photos / "a.jpg")
    assert (first.width, first.height, first.split) == (96, 64, "train")
    assert [(r.xyxy, r.phrase) for r in first.regions] == [
        ((10, 5, 40.5, 25), "a yellow sun"),
        ((80, 50, 96, 64), "a red house, on grass"),
    ]
    assert first.sentences == ("A house stands in the sun.",)
    assert second.split == "dev"
    assert (done.description["regions"], done.description["clamped_regions"]) == (3, 1)


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_corner_and_size_any_separator_any_line_end(photos, tmp_path, separator):
    lines = ["\ufeffPath, x ,y,w,h,phrase", "a.jpg,1,2,3,4,a thing"]
    table = write(tmp_path, "\r\n".join(line.replace(",", separator) for line in lines))
    prepare("csv", table, tmp_path / "out", Settings(images=photos))
    [record] = Dataset(tmp_path / "out")
    assert record.regions[0].xyxy == (1, 2, 4, 6)


def test_a_table_without_boxes_holds_sentences(photos, tmp_path):
    table = write(tmp_path, "path,phrase\nphotos/a.jpg,A house.\nphotos/a.jpg,A sun.\n")
    prepare("csv", table, tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert (record.sentences, record.regions) == (("A house.", "A sun."), ())


def test_a_missing_or_unreadable_photo_is_skipped_with_its_reason(photos, tmp_path):
    (photos / "bad.jpg").write_text("no photo")
    table = write(
        tmp_path,
        "path,phrase\nphotos/a.jpg,A house.\nphotos/none.jpg,Nothing.\nphotos/bad.jpg,Bad.\n",
    )
    done = prepare("csv", table, tmp_path / "out")
    assert [skipped.place.rpartition(", ")[2] for skipped in done.skipped] == ["line 3", "line 4"]
    assert done.description["skipped_images"] == {"photo not found": 1, "unreadable photo": 1}


def test_a_photo_of_another_folder_with_the_same_name_is_not_taken(photos, tmp_path):
    table = write(photos, "path,phrase\na.jpg,A house.\n2019/a.jpg,Another house.\n")
    done = prepare("csv", table, tmp_path / "out")
    assert done.description["skipped_images"] == {"photo not found": 1}


HEADER = "path,x0,y0,x1,y1,phrase,split\n"
GOOD = "photos/a.jpg,1,2,3,4,a thing,train\n"


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "line 1: the columns are missing"),
        ("path,x0,y0,x1,phrase\n", "line 1: the columns are path, x0"),
        ("path,x,y,w,h,x0,y0,x1,y1,phrase\n", "line 1: the columns are"),
        ("path,path,phrase\n", "line 1: the columns are"),
        ("file,phrase\n", "line 1: the columns are file, phrase"),
        (HEADER, "an empty data set"),
        (HEADER + GOOD + "photos/a.jpg,1,2,3\n", "line 3: 4 cells under 7 columns"),
        (
            HEADER + GOOD + "photos/a.jpg,one,2,3,4,x,\n",
            "line 3: could not convert string to float: 'one'",
        ),
        (
            HEADER + GOOD + "photos/a.jpg,nan,2,3,4,x,\n",
            "line 3: a box with a coordinate that is not a number",
        ),
        (
            HEADER + GOOD + "photos/a.jpg,1,2,inf,4,x,\n",
            "line 3: a box with a coordinate that is not a number",
        ),
        (HEADER + GOOD + "photos/a.jpg,1,,3,4,x,\n", "line 3: a box needs all of x0, y0, x1, y1"),
        (HEADER + GOOD + "photos/a.jpg,9,2,3,4,x,\n", "line 3: box without area inside the image"),
        (
            HEADER + GOOD + "photos/a.jpg,200,2,300,4,x,\n",
            "line 3: box without area inside the image",
        ),
        (HEADER + GOOD + "photos/a.jpg,1,2,3,4,,\n", "line 3: the phrase is empty"),
        (HEADER + GOOD + ",1,2,3,4,x,\n", "line 3: the path is empty"),
        (
            HEADER + GOOD + "photos/a.jpg,1,2,3,4,x,test\n",
            "line 3: photos/a.jpg is in train .*line 2.* and in test",
        ),
        (HEADER + GOOD + "photos/a.jpg,1,2,3,4,x,later\n", "line 3: unknown split 'later'"),
        (HEADER + GOOD + 'photos/a.jpg,1,2,3,4,"x"y,\n', "line 3: not a table"),
        (HEADER.encode() + b"\xff\xfe", "not UTF-8 text at byte 31"),
    ],
)
def test_bad_input_is_named_with_file_and_line(photos, tmp_path, text, problem):
    table = write(tmp_path, text)
    with pytest.raises(DataError, match=problem) as caught:
        prepare("csv", table, tmp_path / "out")
    assert str(table) in caught.value.message
    assert not (tmp_path / "out").exists()


def test_a_folder_is_no_table(photos, tmp_path):
    with pytest.raises(DataError, match="a folder, not a file"):
        prepare("csv", photos, tmp_path / "out")
