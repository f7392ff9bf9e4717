"""Flickr8k, in Hodosh et al.'s layout."""

from pathlib import Path

import pytest

from regiontalk.errors import DataError, SkippedInputs
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset

TOKENS = """\
1000268201_693b08cb0e.jpg#1\tA girl going into a wooden building .
1000268201_693b08cb0e.jpg#0\tA child in a pink dress .
1001773457_577c3a7d70.jpg#0\tA black dog and a spotted dog are fighting
1002674143_1b742ab4b8.jpg#0\tA little girl covered in paint .
2258277193_586949ec62.jpg.1#0\tpeople waiting for the subway
2258277193_586949ec62.jpg.1#1\tSome people looking out windows .
"""


@pytest.fixture
def source(tmp_path, scene) -> Path:
    folder = tmp_path / "flickr8k"
    (folder / "Flickr8k_text").mkdir(parents=True)
    (folder / "Flickr8k_text" / "Flickr8k.token.txt").write_text(TOKENS)
    for split, name in {"train": "1000268201_693b08cb0e", "dev": "1001773457_577c3a7d70"}.items():
        (folder / "Flickr8k_text" / f"Flickr_8k.{split}Images.txt").write_text(f"{name}.jpg\n")
    (folder / "Flickr8k_text" / "Flickr_8k.testImages.txt").write_text(
        "2258277193_586949ec62.jpg\n"
    )
    (folder / "Flicker8k_Dataset").mkdir()
    for name in ("1000268201_693b08cb0e", "1001773457_577c3a7d70", "2258277193_586949ec62"):
        scene.save(folder / "Flicker8k_Dataset" / f"{name}.jpg")
    return folder


def test_a_sample_becomes_records(source, tmp_path):
    done = prepare("flickr8k", source, tmp_path / "out")
    train, dev, test = Dataset(tmp_path / "out")
    assert train.image == str(source / "Flicker8k_Dataset" / "1000268201_693b08cb0e.jpg")
    assert (train.width, train.height, train.split) == (96, 64, "train")
    assert train.sentences == ("A child in a pink dress .", "A girl going into a wooden building .")
    assert (dev.split, test.split) == ("dev", "test")
    assert done.description["left_out_images"] == {"in no split": 1}
    assert done.description["sentences"] == 5


def test_the_photo_with_the_stray_suffix_has_its_sentences(source, tmp_path):
    prepare("flickr8k", source, tmp_path / "out")
    record = Dataset(tmp_path / "out")[2]
    assert Path(record.image).name == "2258277193_586949ec62.jpg"
    assert record.sentences == (
        "people waiting for the subway",
        "Some people looking out windows .",
    )


def test_a_missing_photo_is_skipped_with_its_reason(source, tmp_path):
    (source / "Flicker8k_Dataset" / "2258277193_586949ec62.jpg").unlink()
    done = prepare("flickr8k", source, tmp_path / "out")
    assert done.description["images"] == 2
    [skipped] = done.skipped
    assert skipped.place.endswith("Flickr8k.token.txt, line 5")
    assert skipped.reason.startswith("photo not found: ")
    with pytest.raises(
        SkippedInputs, match=r"cannot be used: 1; the first is .*line 5: photo not found"
    ):
        prepare("flickr8k", source, tmp_path / "strict", Settings(strict=True))
    assert not (tmp_path / "strict").exists()


def test_without_lists_everything_is_training(source, tmp_path):
    for path in (source / "Flickr8k_text").glob("Flickr_8k*"):
        path.unlink()
    done = prepare("flickr8k", source, tmp_path / "out")
    assert list(done.description["splits"]) == ["train"]
    assert done.description["skipped_images"] == {"photo not found": 1}


def test_the_token_file_itself_is_a_source_too(source, tmp_path):
    photos = source / "Flicker8k_Dataset"
    prepare(
        "flickr8k",
        source / "Flickr8k_text" / "Flickr8k.token.txt",
        tmp_path / "out",
        Settings(photos),
    )
    assert len(Dataset(tmp_path / "out")) == 3


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        (TOKENS + "no number here\n", r"Flickr8k\.token\.txt, line 7: not `photo"),
        ("", "an empty data set"),
        (b"a.jpg#0\t\xff", "not UTF-8 text at byte 9"),
    ],
)
def test_bad_input_is_named_with_file_and_place(source, tmp_path, text, problem):
    path = source / "Flickr8k_text" / "Flickr8k.token.txt"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(DataError, match=problem):
        prepare("flickr8k", source, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_photo_in_two_lists_is_an_error(source, tmp_path):
    (source / "Flickr8k_text" / "Flickr_8k.testImages.txt").write_text("1000268201_693b08cb0e.jpg")
    with pytest.raises(
        DataError, match=r"testImages\.txt: 1000268201_693b08cb0e\.jpg is in train and in test"
    ):
        prepare("flickr8k", source, tmp_path / "out")
