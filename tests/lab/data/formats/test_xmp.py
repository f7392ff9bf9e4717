"""Sidecars: written, merged into other programs', and read back."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from xml.etree import ElementTree as ET

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from regiontalk.errors import DataError
from regiontalk.images.photo import open_photo
from regiontalk.lab.data.formats import xmp
from regiontalk.lab.data.formats.sources import Skipped, Source
from regiontalk.lab.data.prepare import prepare
from regiontalk.lab.data.records import Dataset
from regiontalk.results import Region, Tag

MUG = Region((10.25, 20.5, 60.5, 50.0), 0.9, 'a <red> "mug" & spoon')
WALL = Region((0.0, 0.0, 96.0, 64.0), 0.4, "a wall")
DIGIKAM = """<?xpacket begin="\ufeff" id="W5M0MpCehiHzreSzNTczkc9d"?>
<!-- by hand -->
<x:xmpmeta xmlns:x="adobe:ns:meta/" x:xmptk="XMP Core 4.4.0">
 <rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#">
  <rdf:Description rdf:about="" xmlns:xmp="http://ns.adobe.com/xap/1.0/"
    xmlns:digiKam="http://www.digikam.org/ns/1.0/" xmlns:dc="http://purl.org/dc/elements/1.1/"
    xmlns:mwg-rs="http://www.metadataworkinggroup.com/schemas/regions/" xmlns:stArea="http://ns.adobe.com/xmp/sType/Area#"
    xmp:Rating="5" digiKam:PickLabel="3">
   <digiKam:TagsList><rdf:Seq><rdf:li>Family/Ann</rdf:li></rdf:Seq></digiKam:TagsList>
   <dc:description><rdf:Alt><rdf:li xml:lang="x-default">Ann at the sea</rdf:li></rdf:Alt></dc:description>
   <mwg-rs:Regions rdf:parseType="Resource"><mwg-rs:RegionList><rdf:Bag>
    <rdf:li><rdf:Description mwg-rs:Name="Ann" mwg-rs:Type="Face">
     <mwg-rs:Area stArea:x="0.5" stArea:y="0.25" stArea:w="0.2" stArea:h="0.1" stArea:unit="normalized"/>
    </rdf:Description></rdf:li>
   </rdf:Bag></mwg-rs:RegionList></mwg-rs:Regions>
  </rdf:Description>
 </rdf:RDF>
</x:xmpmeta>
<?xpacket end="w"?>"""


def read_back(folder: Path) -> list[tuple[tuple[str, ...], list[tuple[str, tuple[float, ...]]]]]:
    records = [item.record for item in xmp.read(Source(folder))]
    return [
        (one.sentences, [(region.phrase, region.xyxy) for region in one.regions]) for one in records
    ]


def phrases(region: Region) -> tuple[str, tuple[float, ...]]:
    return region.caption, region.xyxy


@pytest.mark.parametrize("orientation", range(1, 9))
def test_what_is_written_is_read_back(orientation: int, scene: Image.Image, tmp_path: Path) -> None:
    """Boxes are of the upright photo on both sides, however it is stored."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    scene.save(tmp_path / "a.jpg", exif=exif)
    size = open_photo(tmp_path / "a.jpg").size
    assert xmp.orientation_of(tmp_path / "a.jpg") == orientation
    data = xmp.to_xmp(xmp.Found("a mug on a wall", [MUG, WALL]), size, orientation)
    xmp.sidecar_of(tmp_path / "a.jpg").write_bytes(data)
    clipped = [phrases(MUG), phrases(WALL)]
    assert read_back(tmp_path) == [(("a mug on a wall",), clipped)]


@pytest.mark.parametrize("orientation", range(1, 9))
def test_areas_are_of_the_photo_as_it_is_stored(
    orientation: int, tmp_path: Path, make_scene: Callable[..., Image.Image]
) -> None:
    """A red dot is found where the sidecar says, in the pixels that are stored."""
    exif = Image.Exif()
    exif[0x0112] = orientation
    stored = np.zeros((40, 60, 3), dtype=np.uint8)
    stored[8:12, 45:54] = (255, 0, 0)
    Image.fromarray(stored).save(tmp_path / "a.png", exif=exif)
    upright = np.asarray(open_photo(tmp_path / "a.png"))
    rows, columns = np.nonzero(upright[:, :, 0])
    box = (float(columns.min()), float(rows.min()), float(columns.max() + 1), float(rows.max() + 1))
    size = (upright.shape[1], upright.shape[0])
    root = ET.fromstring(xmp.to_xmp(xmp.Found("x", [Region(box, 0.5, "a dot")]), size, orientation))
    (area,) = root.iter(xmp._name("mwg-rs:Area"))
    found = [float(area.attrib[xmp._name(f"stArea:{side}")]) for side in "xywh"]
    assert found == pytest.approx([49.5 / 60, 10 / 40, 9 / 60, 4 / 40])
    (dimensions,) = root.iter(xmp._name("mwg-rs:AppliedToDimensions"))
    assert [dimensions.attrib[xmp._name(f"stDim:{side}")] for side in "wh"] == ["60", "40"]


SIDES = st.lists(st.integers(0, 400_000), min_size=2, max_size=2, unique=True).map(sorted)


@given(across=SIDES, down=SIDES, orientation=st.integers(1, 8), score=st.floats(0, 1))
def test_boxes_come_back_to_the_hundredth_of_a_pixel(
    across: list[int], down: list[int], orientation: int, score: float
) -> None:
    box = (across[0] / 100, down[0] / 100, across[1] / 100, down[1] / 100)
    root = ET.fromstring(
        xmp.to_xmp(xmp.Found("x", [Region(box, score, "a")]), (4000, 4000), orientation)
    )
    (item,) = xmp._region_items(root)
    found = xmp._region(item, "a", (4000, 4000), orientation)
    assert found.xyxy == box
    assert found.score == pytest.approx(score, abs=1e-5)


def test_a_sidecar_of_another_program_keeps_what_it_says(tmp_path: Path) -> None:
    merged = xmp.to_xmp(xmp.Found("a woman", [MUG]), (96, 64), existing=DIGIKAM.encode())
    text = merged.decode()
    for kept in (
        'xmp:Rating="5"',
        'digiKam:PickLabel="3"',
        "Family/Ann",
        "Ann at the sea",
        'mwg-rs:Type="Face"',
    ):
        assert kept in text
    (tmp_path / "a.jpg.xmp").write_bytes(merged)
    ann = ("Ann", (38.4, 12.8, 57.6, 19.2))
    assert read_back(tmp_path) == [(("Ann at the sea", "a woman"), [ann, phrases(MUG)])]
    again = xmp.to_xmp(xmp.Found("a man", [WALL]), (96, 64), existing=merged)
    (tmp_path / "a.jpg.xmp").write_bytes(again)
    assert read_back(tmp_path) == [(("Ann at the sea", "a man"), [ann, phrases(WALL)])], (
        "ours is replaced"
    )
    assert xmp.to_xmp(xmp.Found("a man", [WALL]), (96, 64), existing=again) == again
    (tmp_path / "a.jpg.xmp").write_bytes(
        xmp.to_xmp(xmp.Found("a man", []), (96, 64), existing=DIGIKAM.encode(), force=True)
    )
    assert read_back(tmp_path)[0][0] == ("a man",)


def keywords(data: bytes) -> list[str]:
    return listed(data, "dc:subject")


def listed(data: bytes, name: str) -> list[str]:
    root = ET.fromstring(data)
    return xmp._items(xmp._holder(root, name), name)


DOG = Tag("schipperke", ("animal", "dog"))
GRASS = Tag("grass")


def test_keywords_are_flat_and_in_a_hierarchy() -> None:
    data = xmp.to_xmp(xmp.Found("a dog", [MUG], [DOG, GRASS]), (96, 64))
    assert keywords(data) == ["animal", "dog", "schipperke", "grass"]
    assert listed(data, "lr:hierarchicalSubject") == ["animal|dog|schipperke", "grass"]
    assert xmp.to_xmp(xmp.Found("a dog", [MUG], [DOG, GRASS]), (96, 64), existing=data) == data


def test_keywords_of_other_programs_are_kept_and_ours_replaced() -> None:
    theirs = b"""<x:xmpmeta xmlns:x="adobe:ns:meta/"><rdf:RDF
      xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:dc="http://purl.org/dc/elements/1.1/">
      <rdf:Description rdf:about=""/>
      <rdf:Description rdf:about=""><dc:subject><rdf:Bag><rdf:li>Family</rdf:li><rdf:li>Dog</rdf:li></rdf:Bag>
      </dc:subject></rdf:Description></rdf:RDF></x:xmpmeta>"""
    first = xmp.to_xmp(xmp.Found(tags=[DOG]), (96, 64), existing=theirs)
    assert first.count(b"<dc:subject>") == 1, "in the element where the others are"
    assert keywords(first) == ["Family", "Dog", "animal", "schipperke"]
    second = xmp.to_xmp(xmp.Found(tags=[GRASS]), (96, 64), existing=first)
    assert keywords(second) == ["Family", "Dog", "grass"]
    assert listed(second, "lr:hierarchicalSubject") == ["grass"]
    none = xmp.to_xmp(xmp.Found("a text"), (96, 64), existing=second)
    assert keywords(none) == ["Family", "Dog"]


def test_a_keyword_that_was_deleted_does_not_come_back() -> None:
    found = xmp.Found(tags=[DOG, GRASS])
    data = xmp.to_xmp(found, (96, 64))
    corrected = data.replace(b"<rdf:li>schipperke</rdf:li>", b"", 1)
    assert keywords(corrected) == ["animal", "dog", "grass"]
    again = xmp.to_xmp(found, (96, 64), existing=corrected)
    assert keywords(again) == ["animal", "dog", "grass"]
    assert keywords(xmp.to_xmp(found, (96, 64), existing=again)) == ["animal", "dog", "grass"]
    forced = xmp.to_xmp(found, (96, 64), existing=again, force=True)
    assert keywords(forced) == ["animal", "dog", "schipperke", "grass"]


def test_what_is_not_found_any_more_is_removed_with_its_marks() -> None:
    data = xmp.to_xmp(xmp.Found("a dog", [MUG], [DOG]), (96, 64))
    assert b"rt:" not in xmp.to_xmp(xmp.Found(), (96, 64), existing=data).replace(b"xmlns:rt", b"")


def test_pillow_reads_the_keywords(scene: Image.Image, tmp_path: Path) -> None:
    data = xmp.to_xmp(xmp.Found("a dog on grass", [MUG], [DOG, GRASS]), scene.size)
    scene.save(tmp_path / "a.jpg", xmp=data)
    with Image.open(tmp_path / "a.jpg") as photo:
        assert keywords(photo.info["xmp"]) == ["animal", "dog", "schipperke", "grass"]


@pytest.mark.skipif(shutil.which("exiftool") is None, reason="exiftool is not installed")
def test_exiftool_reads_and_writes_our_sidecars(tmp_path: Path) -> None:
    sidecar = tmp_path / "a.jpg.xmp"
    sidecar.write_bytes(xmp.to_xmp(xmp.Found("a dog on grass", [MUG], [DOG, GRASS]), (96, 64)))

    def exiftool(*arguments: str) -> str:
        command = ["exiftool", *arguments, str(sidecar)]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout

    (read,) = json.loads(exiftool("-json", "-struct", "-XMP:all"))
    assert read["Subject"] == ["animal", "dog", "schipperke", "grass"]
    assert read["HierarchicalSubject"] == ["animal|dog|schipperke", "grass"]
    assert read["Description"] == "a dog on grass"
    assert [one["Name"] for one in read["RegionInfo"]["RegionList"]] == [MUG.caption]
    exiftool("-overwrite_original", "-XMP-dc:Subject+=holiday")
    again = xmp.to_xmp(xmp.Found("a cat", [WALL], [GRASS]), (96, 64), existing=sidecar.read_bytes())
    sidecar.write_bytes(again)
    (read,) = json.loads(exiftool("-json", "-struct", "-XMP:all"))
    assert sorted(read["Subject"]) == ["grass", "holiday"]
    assert read["Description"] == "a cat"


def test_adobes_names_and_photos_elsewhere(tmp_path: Path, scene: Image.Image) -> None:
    (tmp_path / "photos" / "deep").mkdir(parents=True)
    (tmp_path / "sidecars" / "deep").mkdir(parents=True)
    scene.save(tmp_path / "photos" / "deep" / "a.JPG", "JPEG")
    (tmp_path / "sidecars" / "deep" / "a.xmp").write_bytes(
        xmp.to_xmp(xmp.Found("a mug", [MUG]), (96, 64))
    )
    (item,) = xmp.read(Source(tmp_path / "sidecars", images=tmp_path / "photos"))
    assert item.record.image == str(tmp_path / "photos" / "deep" / "a.JPG")


def test_data_prepare_reads_sidecars(tmp_path: Path, scene: Image.Image) -> None:
    for name in ("a.jpg", "b.png"):
        scene.save(tmp_path / name)
        xmp.sidecar_of(tmp_path / name).write_bytes(
            xmp.to_xmp(xmp.Found("a mug", [MUG]), scene.size)
        )
    prepare("xmp", tmp_path, tmp_path / "out")
    first, second = Dataset(tmp_path / "out")
    assert (first.image, second.image) == (str(tmp_path / "a.jpg"), str(tmp_path / "b.png"))
    assert (first.width, first.height, first.sentences) == (96, 64, ("a mug",))
    assert [(one.phrase, one.xyxy) for one in first.regions] == [phrases(MUG)]


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no XML",
        b"<a/>",
        b'<!DOCTYPE x [<!ENTITY a "b">]><x/>',
        DIGIKAM.replace('stArea:x="0.5"', "").encode(),
        DIGIKAM.replace('stArea:x="0.5"', 'stArea:x="left"').encode(),
        DIGIKAM.replace('stArea:x="0.5"', 'stArea:x="1e999"').encode(),
        b'<?xml version="1.0" encoding="shift_jis"?><x/>',
        b"<x>" * 100_000,
        b"<x>" * 10_000 + b"</x>" * 10_000,
    ],
)
def test_broken_sidecars_are_named(data: bytes, tmp_path: Path, scene: Image.Image) -> None:
    scene.save(tmp_path / "a.jpg")
    sidecar = tmp_path / "a.jpg.xmp"
    sidecar.write_bytes(data)
    with pytest.raises(DataError, match=r"a\.jpg\.xmp"):
        list(xmp.read(Source(sidecar)))
    [skipped] = xmp.read(Source(tmp_path))
    assert isinstance(skipped, Skipped)
    assert skipped.place == str(sidecar)
    assert str(sidecar) not in skipped.reason


def test_a_broken_sidecar_ends_no_data_set(tmp_path: Path, scene: Image.Image) -> None:
    source = tmp_path / "photos"
    source.mkdir()
    for name in ("a.jpg", "b.jpg", "c.jpg"):
        scene.save(source / name)
        xmp.sidecar_of(source / name).write_bytes(xmp.to_xmp(xmp.Found("a mug", [MUG]), scene.size))
    xmp.sidecar_of(source / "b.jpg").write_bytes(b"no XML")
    done = prepare("xmp", source, tmp_path / "data")
    assert done.description["skipped_images"] == {"unreadable sidecar": 1}
    assert [one.place for one in done.skipped] == [str(source / "b.jpg.xmp")]
    assert len(Dataset(tmp_path / "data")) == 2


@pytest.mark.timeout(60)
def test_c6_a_photo_that_is_a_pipe_is_not_opened(tmp_path: Path, scene: Image.Image) -> None:
    xmp.sidecar_of(tmp_path / "a.jpg").write_bytes(
        xmp.to_xmp(xmp.Found("a mug", [MUG]), scene.size, 1)
    )
    os.mkfifo(tmp_path / "a.jpg")
    assert read_back(tmp_path) == [(("a mug",), [phrases(MUG)])]


def test_c2_a_photo_that_is_refused_has_no_orientation(tmp_path: Path, scene: Image.Image) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    scene.save(tmp_path / "a.png", exif=exif)
    assert xmp.orientation_of(tmp_path / "a.png") == 6
    empty_chunk = bytes(4) + b"prVt" + zlib.crc32(b"prVt").to_bytes(4)
    data = (tmp_path / "a.png").read_bytes()
    (tmp_path / "a.png").write_bytes(data[:33] + 2000 * empty_chunk + data[33:])
    assert xmp.orientation_of(tmp_path / "a.png") == 1
