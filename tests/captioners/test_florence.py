"""Florence-2 with transformers' own classes, tiny, taught one photo. No network."""

from __future__ import annotations

import socket
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from regiontalk.captioners.florence import Florence
from regiontalk.captioners.loading import address_of, load_captioner
from regiontalk.cli.main import run
from regiontalk.errors import ModelError, UsageError

pytest.importorskip("transformers")

PHOTO = Image.new("RGB", (200, 100), "red")
ANSWERS = {
    # A cat in a box, a dog in two, one of them without an inside.
    "<DENSE_REGION_CAPTION>": "a cat<loc_100><loc_200><loc_500><loc_600>"
    "a dog<loc_0><loc_0><loc_999><loc_999><loc_7><loc_8><loc_7><loc_9>",
    "<REGION_TO_DESCRIPTION><loc_0><loc_0><loc_499><loc_999>": "the left",
}


@pytest.fixture(scope="module")
def weights(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from tiny_florence import write

    folder = tmp_path_factory.mktemp("weights") / "tiny-florence"
    write(folder, PHOTO, ANSWERS)
    return folder


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(*_: object) -> None:
        raise AssertionError("the network was used")

    monkeypatch.setattr(socket.socket, "connect", connect)
    monkeypatch.setattr("regiontalk.captioners.florence.MAX_ANSWER_TOKENS", 40)


def test_regions_with_boxes_and_scores(weights: Path) -> None:
    address = address_of(f"florence:{weights}")
    assert address is not None
    captioner = load_captioner(address)
    assert captioner.name == "tiny-florence"
    cat, dog = captioner.regions(PHOTO)
    assert (cat.caption, dog.caption) == ("a cat", "a dog")
    assert cat.xyxy == pytest.approx((20.1, 20.05, 100.1, 60.05))
    assert dog.xyxy == pytest.approx((0.1, 0.05, 199.9, 99.95))
    assert 0.5 < cat.score < 1


def test_captions_of_boxes(weights: Path) -> None:
    (caption,) = Florence(str(weights)).captions(PHOTO, np.array([[0.0, 0.0, 100.0, 100.0]]))
    assert caption.caption == "the left"
    assert 0.5 < caption.score < 1


def test_the_verb(weights: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    PHOTO.save(tmp_path / "red.png")
    assert run(["caption", str(tmp_path / "red.png"), "--model", f"florence:{weights}"]) == 0
    assert [line.split("\t")[2] for line in capsys.readouterr().out.splitlines()] == [
        "a dog",
        "a cat",
    ]


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="needs its weights"):
        Florence()
    with pytest.raises(ModelError, match="no weights of Florence-2") as caught:
        Florence("florence-community/no-such-model")
    assert "\n" not in caught.value.message
    with pytest.raises(ModelError, match="no weights of Florence-2"):
        Florence(str(tmp_path))
