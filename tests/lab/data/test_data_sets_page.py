"""docs/data-sets.md: its commands make the data sets that the recipes name."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest

from regiontalk.cli.main import run
from regiontalk.lab.data.records import Dataset, Record
from regiontalk.lab.evaluation.grounding import true_mentions

ROOT = Path(__file__).parents[3]
PAGE = (ROOT / "docs" / "data-sets.md").read_text(encoding="utf-8")


@pytest.fixture
def made(
    downloads: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Path:
    """The folder in which the page's commands have run: those in blocks marked `sh`; others need
    more than the samples have."""
    desk = downloads.parent
    (desk / "recipes").symlink_to(ROOT / "recipes")
    monkeypatch.chdir(desk)
    for block in re.findall(r"```sh\n(.*?)```", PAGE, re.DOTALL):
        for command in block.splitlines():
            program, *arguments = shlex.split(command)
            assert program == "regiontalk"
            assert run(arguments) == 0, (command, capfd.readouterr().err)
    return desk


def test_the_commands_make_what_the_recipes_name(made: Path) -> None:
    recipes = [tomllib.loads(path.read_text()) for path in (ROOT / "recipes").glob("*.toml")]
    named = {path for recipe in recipes for path in paths_in(recipe)}
    assert {path for path in named if path.startswith("data/")} == {
        *(
            "data/flickr8k_entities",
            "data/coco_objects",
            "data/coco_phrases",
            "data/words/glove_100d.npz",
        ),
        *("data/visual_genome", "data/drawn", "data/coco118k", "data/coco118k_5000"),
        "data/names",  # of several collections: no single command makes it
        "data/weights/dinov2_vits14_patch_8x8.onnx",
        *("data/weights/model.safetensors", "data/weights/vocab.txt"),  # MiniLM's
        "data/weights/words.txt",  # docs/training.md says which words
    }
    assert {str(path.relative_to(made)) for path in (made / "data").glob("*")} == {
        *("data/flickr8k_entities", "data/coco_objects", "data/coco_phrases", "data/words"),
    }
    assert (made / "data/words/glove_100d.npz").is_file()


def paths_in(value: Any) -> list[str]:
    if isinstance(value, dict):
        return [path for item in value.values() for path in paths_in(item)]
    if isinstance(value, list):
        return [path for item in value for path in paths_in(item)]
    return [value] if isinstance(value, str) else []


def test_flickr(made: Path) -> None:
    records = list(Dataset(made / "data" / "flickr8k_entities"))
    assert [(record.image, record.split) for record in records] == [
        ("1000_aa.jpg", "train"),
        ("2000_bb.jpg", "dev"),
        ("3000_cc.jpg", "test"),
    ]
    first = records[0]
    assert first.sentences == (
        "A girl on the stairs .",
        "A small girl in a pink coat climbs some stairs .",
    )
    assert first.entity_sentences == tuple(reversed(first.sentences))
    assert [
        (region.phrase, region.type, region.entity, region.sentences) for region in first.regions
    ] == [
        ("A small girl", "people", "11", (0,)),
        ("a pink coat", "clothing", "12", (0,)),
        ("some stairs", "other", "13", (0,)),
        ("A girl", "people", "11", (1,)),
        ("the stairs", "other", "13", (1,)),
    ]
    assert first.regions[0].xyxy == (0, 0, 48, 32), (
        "Flickr30k's copy of the photo is twice as large"
    )
    mentions = [(mention.sentence, mention.words) for mention in true_mentions(first)]
    assert len(mentions) == 5
    assert mentions[-1] == ("A girl on the stairs .", (3, 5))


def test_coco(made: Path) -> None:
    def said(record: Record) -> list[tuple[str, str | None]]:
        return [(region.phrase, region.type) for region in record.regions]

    objects = {record.image: record for record in Dataset(made / "data" / "coco_objects")}
    assert {name: record.split for name, record in objects.items()} == {
        "000000000009.jpg": "train",
        "000000000260.jpg": "dev",
    }
    assert said(objects["000000000009.jpg"]) == [
        ("cat", "object"),
        ("left cat", "referring"),
        ("the cat", "referring"),
    ]
    assert objects["000000000009.jpg"].sentences == ("Photo 9 of a cat.",)
    phrases = {record.image: record for record in Dataset(made / "data" / "coco_phrases")}
    assert {name: record.split for name, record in phrases.items()} == {
        "000000007504.jpg": "train",
        "000000061460.jpg": "dev",
    }
    clock = phrases["000000007504.jpg"]
    assert said(clock) == [
        ("cat", "object"),
        ("grey cat", "referring"),
        ("a cat that sits", "referring"),
        ("an ear of a cat", "phrase"),
        ("an ear of a cat", "phrase"),
    ]
    assert clock.regions[-1].xyxy == (10, 12, 50, 32), (
        "Visual Genome's copy of the photo is half as large"
    )


def test_the_lists_follow_their_rule() -> None:
    names = ("coco_objects", "coco_phrases")
    lists = {
        name: json.loads((ROOT / "recipes/splits" / f"{name}.json").read_text()) for name in names
    }
    assert {name: [len(ids["train"]), len(ids["dev"])] for name, ids in lists.items()} == {
        "coco_objects": [6761, 341],
        "coco_phrases": [5178, 283],
    }
    for ids in lists.values():
        assert all(number % 20 for number in ids["train"])
        assert not any(number % 20 for number in ids["dev"])
    first, second = ({*ids["train"], *ids["dev"]} for ids in lists.values())
    assert not first & second
