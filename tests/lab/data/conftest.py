"""Small downloads in the very formats of the public ones, with invented content; and parses made by
hand."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from regiontalk.lab.data.parse_tree import Token, Tree

MARKED = """\
[/EN#11/people A small girl] in [/EN#12/clothing a pink coat] climbs [/EN#13/other some stairs] .
[/EN#11/people A girl] on [/EN#13/other the stairs] .
"""
PLAIN = ("A girl on the stairs .", "A small girl in a pink coat climbs some stairs .")


def python2_pickle(value: Any) -> bytes:
    """A pickle as Python 2 wrote RefCOCO's: protocol 0, byte strings, every value in memory."""
    memory = iter(range(1, 10**6))

    def dump(value: Any) -> str:
        if isinstance(value, str):
            return f"S{value!r}\np{next(memory)}\n"
        if isinstance(value, int):
            return f"I{value}\n"
        if isinstance(value, list):
            return f"(lp{next(memory)}\n" + "".join(dump(item) + "a" for item in value)
        return f"(dp{next(memory)}\n" + "".join(
            dump(key) + dump(item) + "s" for key, item in value.items()
        )

    return (dump(value) + ".").encode()


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value))


def write_flickr(folder: Path, scene: Image.Image) -> None:
    text = folder / "Flickr8k_text"
    text.mkdir()
    names = {"train": "1000_aa.jpg", "dev": "2000_bb.jpg", "test": "3000_cc.jpg"}
    lines = [
        f"{name}#{number}\t{said}\n" for name in names.values() for number, said in enumerate(PLAIN)
    ]
    (text / "Flickr8k.token.txt").write_text("".join(lines))
    (folder / "Flicker8k_Dataset").mkdir()
    entities = folder / "flickr30k_entities"
    (entities / "Annotations").mkdir(parents=True)
    (entities / "Sentences").mkdir()
    boxes = {"11": (1, 1, 96, 64), "12": (11, 11, 20, 20), "13": (21, 31, 96, 128)}
    objects = "".join(
        f"<object><name>{entity}</name><bndbox><xmin>{x0}</xmin><ymin>{y0}</ymin><xmax>{x1}</xmax><ymax>{y1}</ymax>"
        "</bndbox></object>"
        for entity, (x0, y0, x1, y1) in boxes.items()
    )
    for split, name in names.items():
        scene.save(folder / "Flicker8k_Dataset" / name)
        (text / f"Flickr_8k.{split}Images.txt").write_text(f"{name}\n")
        number = name.partition("_")[0]
        (entities / "Annotations" / f"{number}.xml").write_text(
            f"<annotation><filename>{number}.jpg</filename>"
            f"<size><width>192</width><height>128</height><depth>3</depth></size>{objects}</annotation>"
        )
        (entities / "Sentences" / f"{number}.txt").write_text(MARKED)
    # Flickr30k shares its photos out in another way
    (entities / "train.txt").write_text("2000\n3000\n")
    (entities / "val.txt").write_text("1000\n")


def coco_image(number: int, name: str = "{:012d}.jpg") -> dict[str, Any]:
    size = {"width": 96, "height": 64}
    return {"license": 5, "file_name": name.format(number), "coco_url": "", "id": number, **size}


def coco_object(number: int, image_id: int, box: list[float]) -> dict[str, Any]:
    rest = {"segmentation": [[1.0, 2.0]], "area": 1.0, "iscrowd": 0}
    return {"id": number, "image_id": image_id, "bbox": box, "category_id": 17, **rest}


def write_coco(folder: Path, scene: Image.Image, numbers: list[int]) -> None:
    images = [coco_image(number) for number in numbers]
    captions = [
        {"image_id": number, "id": number, "caption": f"Photo {number} of a cat. "}
        for number in numbers
    ]
    objects = [coco_object(number + 500, number, [10.5, 10, 20.25, 30]) for number in numbers]
    categories = [{"supercategory": "animal", "id": 17, "name": "cat"}]
    annotations = folder / "coco" / "annotations"
    write_json(
        annotations / "captions_train2017.json",
        {"info": {}, "images": images, "annotations": captions},
    )
    instances = {"info": {}, "images": images, "annotations": objects, "categories": categories}
    write_json(annotations / "instances_train2017.json", instances)
    (folder / "coco" / "train2017").mkdir()
    for number in numbers:
        scene.save(folder / "coco" / "train2017" / f"{number:012d}.jpg")


def reference(number: int, image_id: int, split: str, *said: str) -> dict[str, Any]:
    """An entry of `refs(unc).p`."""
    sentences = [
        {"tokens": text.split(), "raw": text.upper(), "sent_id": 10 * number + n, "sent": text}
        for n, text in enumerate(said)
    ]
    return {
        "sent_ids": [sentence["sent_id"] for sentence in sentences],
        "file_name": f"COCO_train2014_{image_id:012d}_{image_id + 500}.jpg",
        "ann_id": image_id + 500,
        "sentences": sentences,
        "image_id": image_id,
        "category_id": 17,
        "split": split,
        "ref_id": number,
    }


def write_references(folder: Path, split_by: str, references: list[dict[str, Any]]) -> None:
    numbers = sorted({one["image_id"] for one in references})
    images = [coco_image(number, "COCO_train2014_{:012d}.jpg") for number in numbers]
    objects = [coco_object(number + 500, number, [10.5, 10, 20.25, 30]) for number in numbers]
    instances = {
        "info": {},
        "images": images,
        "annotations": objects,
        "licenses": [],
        "categories": [],
    }
    write_json(folder / "instances.json", instances)
    (folder / f"refs({split_by}).p").write_bytes(python2_pickle(references))


def write_visual_genome(folder: Path, coco_ids: list[int | None]) -> None:
    """Copies of COCO's photos at half their size."""
    images = [
        {
            "image_id": n,
            "url": f"https://x/VG_100K/{n}.jpg",
            "width": 48,
            "height": 32,
            "coco_id": coco,
            "flickr_id": 1,
        }
        for n, coco in enumerate(coco_ids, start=1)
    ]
    region = {"x": 5, "y": 6, "width": 20, "height": 10, "phrase": "an ear of a cat", "synsets": []}
    described = [
        {"id": n, "regions": [{"region_id": n, "image_id": n, **region}]}
        for n, _ in enumerate(coco_ids, start=1)
    ]
    write_json(folder / "image_data.json", images)
    write_json(folder / "region_descriptions.json", described)


@pytest.fixture
def downloads(tmp_path: Path, make_scene: Callable[[tuple[int, int]], Image.Image]) -> Path:
    """The downloads of docs/data-sets.md: a few photos of each."""
    folder = tmp_path / "downloads"
    folder.mkdir()
    scene = make_scene((96, 64))
    write_flickr(folder, scene)
    write_coco(
        folder, scene, [9, 260, 5000, 7504, 61460]
    )  # of the lists in recipes/splits; 5000 is in none
    write_references(
        folder / "refer" / "refcoco", "unc", [reference(1, 9, "testA", "left cat", "the cat")]
    )
    write_references(
        folder / "refer" / "refcoco+", "unc", [reference(2, 7504, "train", "grey cat")]
    )
    write_references(
        folder / "refer" / "refcocog",
        "umd",
        [reference(3, 7504, "val", "a cat that sits"), reference(4, 77, "test", "x")],
    )
    write_visual_genome(folder / "visual_genome", [7504, None, 61460, 7504])
    (folder / "glove.6B.100d.txt").write_text("a 1 0.5 -2\ncat 0.25 1 0\nhorse 1 1 1\n")
    return folder


def tree_of(lines: str) -> Tree:
    rows = [line.split() for line in lines.strip().splitlines()]
    words = [row[0] for row in rows]

    def place_of(head: str, place: int) -> int:
        return min(
            (n for n, word in enumerate(words) if word == head), key=lambda n: abs(n - place)
        )

    return Tree(
        [
            Token(word, tag, dep, place_of(head, place))
            for place, (word, tag, dep, head) in enumerate(rows)
        ]
    )


@pytest.fixture
def parse() -> Callable[[str], Tree]:
    """A tree from lines of `word tag dep head`; the head is the nearest word of that name, a root's
    is itself."""
    return tree_of
