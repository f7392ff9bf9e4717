"""Flickr30k Entities, in Plummer et al.'s layout."""

from pathlib import Path

import pytest

from regiontalk.errors import DataError
from regiontalk.lab.data.formats.flickr30k_entities import plain_sentence
from regiontalk.lab.data.prepare import Settings, prepare
from regiontalk.lab.data.records import Dataset, Record

SENTENCES = """\
[/EN#1/people Two young guys] with [/EN#2/bodyparts shaggy hair] look at [/EN#3/bodyparts their hands] .
[/EN#1/people two young guys] stand in [/EN#4/scene the yard] .
[/EN#5/vehicles/scene A parked car] is behind [/EN#1/people two friends] .
[/EN#0/notvisual It] is [/EN#6/other nothing] that can be seen .
Nobody is marked here .
"""

OBJECTS = """
  <object><name>1</name><bndbox><xmin>1</xmin><ymin>1</ymin><xmax>20</xmax><ymax>40</ymax></bndbox></object>
  <object>
    <name>1</name><name>2</name>
    <bndbox><xmin>31</xmin><ymin>11</ymin><xmax>96</xmax><ymax>64</ymax></bndbox>
  </object>
  <object><name>4</name><scene>1</scene><nobndbox>1</nobndbox></object>
  <object><name>6</name><nobndbox>1</nobndbox><scene>0</scene></object>
  <object><name>5</name><bndbox><xmin>2</xmin><ymin>3</ymin><xmax>4</xmax><ymax>5</ymax></bndbox></object>
"""


def annotation(name: str, objects: str = OBJECTS, size: tuple[int, int] = (96, 64)) -> str:
    return (
        f"<annotation><filename>{name}.jpg</filename>"
        f"<size><width>{size[0]}</width><height>{size[1]}</height><depth>3</depth></size>{objects}</annotation>"
    )


def write_source(folder: Path, names: list[str]) -> Path:
    (folder / "Annotations").mkdir(parents=True)
    (folder / "Sentences").mkdir()
    for name in names:
        (folder / "Annotations" / f"{name}.xml").write_text(annotation(name))
        (folder / "Sentences" / f"{name}.txt").write_text(SENTENCES)
    return folder


@pytest.fixture
def source(tmp_path) -> Path:
    folder = write_source(tmp_path / "entities", ["1000092795", "10002456", "1000268201", "99"])
    (folder / "train.txt").write_text("1000092795\n")
    (folder / "val.txt").write_text("10002456\n")
    (folder / "test.txt").write_text("1000268201\n")
    return folder


def test_a_sample_becomes_records(source, tmp_path):
    done = prepare("flickr30k-entities", source, tmp_path / "out")
    records = list(Dataset(tmp_path / "out"))
    assert [(Path(record.image).name, record.split) for record in records] == [
        ("1000092795.jpg", "train"),
        ("10002456.jpg", "dev"),
        ("1000268201.jpg", "test"),
    ]
    assert done.description["left_out_images"] == {"in no split": 1}
    assert done.description["missing_photos"] == 3
    assert done.description["regions"] == 12
    assert records[0].sentences == (
        "Two young guys with shaggy hair look at their hands .",
        "two young guys stand in the yard .",
        "A parked car is behind two friends .",
        "It is nothing that can be seen .",
        "Nobody is marked here .",
    )


def test_phrases_boxes_entities_and_sentences(source, tmp_path):
    prepare("flickr30k-entities", source, tmp_path / "out")
    record = Dataset(tmp_path / "out")[0]
    assert [region.to_dict() for region in record.regions] == [
        {
            "xyxy": [0, 0, 96, 64],
            "phrase": "Two young guys",
            "boxes_xyxy": [[0, 0, 20, 40], [30, 10, 96, 64]],
            "type": "people",
            "entity": "1",
            "sentences": [0, 1],
        },
        {
            "xyxy": [30, 10, 96, 64],
            "phrase": "shaggy hair",
            "type": "bodyparts",
            "entity": "2",
            "sentences": [0],
        },
        {
            "xyxy": [1, 2, 4, 5],
            "phrase": "A parked car",
            "type": "vehicles/scene",
            "entity": "5",
            "sentences": [2],
        },
        {
            "xyxy": [0, 0, 96, 64],
            "phrase": "two friends",
            "boxes_xyxy": [[0, 0, 20, 40], [30, 10, 96, 64]],
            "type": "people",
            "entity": "1",
            "sentences": [2],
        },
    ]


def test_records_written_in_the_original_format_come_back_the_same(source, tmp_path):
    """Record -> Plummer et al.'s files -> record."""
    prepare("flickr30k-entities", source, tmp_path / "out")
    records = list(Dataset(tmp_path / "out"))
    again = tmp_path / "again"
    (again / "Annotations").mkdir(parents=True)
    (again / "Sentences").mkdir()
    for record in records:
        write_in_original_format(again, record)
        (again / f"{'val' if record.split == 'dev' else record.split}.txt").write_text(
            Path(record.image).stem
        )
    prepare("flickr30k-entities", again, tmp_path / "back", Settings(images=source))
    for before, after in zip(records, Dataset(tmp_path / "back"), strict=True):
        assert after == before


def write_in_original_format(folder: Path, record: Record) -> None:
    name = Path(record.image).stem
    boxes = {region.entity: region.boxes_xyxy or (region.xyxy,) for region in record.regions}
    objects = "".join(
        f"<object><name>{entity}</name><bndbox><xmin>{x0 + 1:g}</xmin><ymin>{y0 + 1:g}</ymin>"
        f"<xmax>{x1:g}</xmax><ymax>{y1:g}</ymax></bndbox></object>"
        for entity, own in boxes.items()
        for x0, y0, x1, y1 in own
    )
    (folder / "Annotations" / f"{name}.xml").write_text(
        annotation(name, objects, (record.width, record.height))
    )
    sentences = list(record.sentences)
    for region in record.regions:
        for number in region.sentences:
            start = sentences[number].lower().index(region.phrase.lower())
            end = start + len(region.phrase)
            mark = f"[/EN#{region.entity}/{region.type} {sentences[number][start:end]}]"
            sentences[number] = sentences[number][:start] + mark + sentences[number][end:]
    (folder / "Sentences" / f"{name}.txt").write_text("\n".join(sentences))


def test_without_lists_everything_is_training(tmp_path):
    prepare("flickr30k-entities", write_source(tmp_path / "entities", ["1"]), tmp_path / "out")
    assert Dataset(tmp_path / "out")[0].split == "train"


@pytest.mark.parametrize("name", ["10002456", "10002456.jpg"])
def test_a_split_file_takes_the_place_of_the_lists(source, tmp_path, name):
    splits = tmp_path / "splits.json"
    splits.write_text(f'{{"train": ["{name}"]}}')
    prepare("flickr30k-entities", source, tmp_path / "out", Settings(split_file=splits))
    assert [(Path(r.image).stem, r.split) for r in Dataset(tmp_path / "out")] == [
        ("10002456", "train")
    ]


def test_an_annotation_without_size_asks_the_photo(tmp_path, scene):
    folder = write_source(tmp_path / "entities", ["1", "2"])
    for name in ("1", "2"):
        text = annotation(name)
        start, end = text.index("<size>"), text.index("</size>") + len("</size>")
        (folder / "Annotations" / f"{name}.xml").write_text(text[:start] + text[end:])
    (folder / "flickr30k-images").mkdir()
    scene.save(folder / "flickr30k-images" / "1.jpg")
    done = prepare("flickr30k-entities", folder, tmp_path / "out")
    [record] = Dataset(tmp_path / "out")
    assert (record.width, record.height) == scene.size
    assert done.description["skipped_images"] == {"photo not found": 1}


@pytest.mark.parametrize(
    ("file", "content", "problem"),
    [
        (
            "Annotations/1.xml",
            "<annotation><object>",
            r"1\.xml: wrong XML: no element found: line 1, column 20",
        ),
        ("Annotations/1.xml", "", r"1\.xml: wrong XML"),
        ("Annotations/1.xml", annotation("1", size=(0, 5)), r"1\.xml: an image of 0×5 pixels"),
        (
            "Annotations/1.xml",
            annotation("1").replace(">20<", ">wide<"),
            r"1\.xml: could not convert",
        ),
        (
            "Annotations/1.xml",
            annotation("1").replace("<xmax>20</xmax>", ""),
            r"1\.xml: a bndbox without xmax",
        ),
        (
            "Annotations/1.xml",
            annotation("1").replace(">20<", ">nan<"),
            r"1\.xml, region 1: .*not a number",
        ),
        ("Sentences/1.txt", "A [/EN#12 dog] runs", r"1\.txt, line 1: a phrase that does not read"),
        (
            "Sentences/1.txt",
            "A dog\nA [/EN#12/animals dog runs",
            r"1\.txt, line 2: a phrase that does not read",
        ),
        ("train.txt", "1\n", None),
    ],
)
def test_bad_input_is_named_with_file_and_place(tmp_path, file, content, problem):
    folder = write_source(tmp_path / "entities", ["1"])
    (folder / file).write_text(content)
    if problem is None:
        prepare("flickr30k-entities", folder, tmp_path / "out")
        return
    with pytest.raises(DataError, match=problem):
        prepare("flickr30k-entities", folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_missing_files_and_folders_are_named(tmp_path):
    folder = write_source(tmp_path / "entities", ["1"])
    (folder / "Sentences" / "1.txt").unlink()
    with pytest.raises(DataError, match=r"Sentences/1\.txt: No such file"):
        prepare("flickr30k-entities", folder, tmp_path / "out")
    with pytest.raises(DataError, match="Annotations: no such folder"):
        prepare("flickr30k-entities", tmp_path, tmp_path / "out")


def test_the_marks_of_phrases_go_from_a_sentence():
    assert (
        plain_sentence("[/EN#1/people A man] and [/EN#2/people/other his  dog]")
        == "A man and his  dog"
    )


@pytest.mark.parametrize(
    "text", ["[/EN#1/x" * 20_000, "[/EN#1/x" + " " * 200_000, "[/EN#1/" + "x" * 200_000]
)
def test_a_hostile_sentence_is_read_in_linear_time(text):
    assert plain_sentence(text) == text


@pytest.mark.parametrize("encoding", ["nope", "shift_jis"])
def test_an_encoding_that_xml_does_not_have_is_named(tmp_path, encoding):
    source = write_source(tmp_path / "entities", ["1"])
    (source / "Annotations" / "1.xml").write_text(
        f'<?xml version="1.0" encoding="{encoding}"?>' + annotation("1")
    )
    with pytest.raises(DataError, match=r"1\.xml: wrong XML"):
        prepare("flickr30k-entities", source, tmp_path / "out")
