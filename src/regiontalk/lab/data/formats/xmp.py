"""XMP sidecars, `photo.jpg.xmp`: files next to a photo that photo managers read and write.

| property | who reads it |
|---|---|
| `dc:description` | digiKam, darktable, Lightroom, Immich: the caption |
| `dc:subject` | all photo managers: keywords |
| `lr:hierarchicalSubject` | digiKam, darktable, Lightroom, Immich: keywords, `animal|dog` |
| `Iptc4xmpCore:AltTextAccessibility` | Lightroom, digiKam, the web: the alt text |
| `mwg-rs:Regions` | digiKam, Lightroom: boxes with names, in fractions of the photo as stored,
  before it is turned |

A sidecar of another program is merged: its content is kept, and only what we wrote ourselves is
replaced. Our regions are marked by `rt:Score`, our text by `rt:Text`, our keywords by
`rt:Subject` and `rt:HierarchicalSubject`. A keyword of ours that was deleted there is not added
again.
"""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import NamedTuple, cast
from xml.etree import ElementTree as ET

from regiontalk.errors import ImageError, RegionTalkError
from regiontalk.images.limits import MOST_MEGAPIXELS, Limits
from regiontalk.images.paths import SUFFIXES
from regiontalk.images.photo import SIDEWAYS_ORIENTATIONS, Photo
from regiontalk.io.files import LONGEST_LINE, read_file
from regiontalk.lab.data.formats.fields import reading
from regiontalk.lab.data.formats.sources import Format, Item, Skipped, Source
from regiontalk.lab.data.records import Record, TrueRegion
from regiontalk.results import BoxXYXY, Region, Tag, keywords_of

SPACES = {
    "xml": "http://www.w3.org/XML/1998/namespace",
    "x": "adobe:ns:meta/",
    "rdf": "http://www.w3.org/1999/02/22-rdf-syntax-ns#",
    "dc": "http://purl.org/dc/elements/1.1/",
    "lr": "http://ns.adobe.com/lightroom/1.0/",
    "Iptc4xmpCore": "http://iptc.org/std/Iptc4xmpCore/1.0/xmlns/",
    "mwg-rs": "http://www.metadataworkinggroup.com/schemas/regions/",
    "stArea": "http://ns.adobe.com/xmp/sType/Area#",
    "stDim": "http://ns.adobe.com/xap/1.0/sType/Dimensions#",
    "rt": "https://regiontalk.invalid/xmp/1/",
}
TEXTS = ("dc:description", "Iptc4xmpCore:AltTextAccessibility")
_RESOURCE = {"rdf:parseType": "Resource"}
_PACKET = (
    b'<?xpacket begin="\xef\xbb\xbf" id="W5M0MpCehiHzreSzNTczkc9d"?>\n%s\n<?xpacket end="w"?>\n'
)
_UNSAFE = re.compile(rb"<!(DOCTYPE|ENTITY)")


def sidecar_of(photo: str | Path) -> Path:
    """`photo.jpg.xmp`, the name that digiKam and darktable use; x.jpg and x.png have different
    sidecars."""
    return Path(f"{photo}.xmp")


class Found(NamedTuple):
    """What a sidecar says of a photo. What is empty is not written, and removed if we wrote it."""

    text: str = ""
    regions: Sequence[Region] = ()
    tags: Sequence[Tag] = ()


def to_xmp(
    found: Found,
    size: tuple[int, int],
    orientation: int = 1,
    existing: bytes | None = None,
    force: bool = False,
) -> bytes:
    """A sidecar: what was found in a photo, with regions in pixels of the upright photo of `size`.

    `orientation` is the photo's in EXIF. `existing`: the current sidecar; its text and keywords are
    kept. With `force` its text is replaced, and keywords of ours that were deleted are added again.
    Raises `ValueError` if it is not a sidecar.
    """
    root = ET.Element(_name("x:xmpmeta")) if existing is None else _parse(existing)
    _put_texts(root, found.text, force)
    _put_keywords(root, "dc:subject", "rt:Subject", keywords_of(found.tags), force)
    paths = [tag.path for tag in found.tags]
    _put_keywords(root, "lr:hierarchicalSubject", "rt:HierarchicalSubject", paths, force)
    description = _holder(root, "mwg-rs:Regions")
    if found.regions or description.find(_name("mwg-rs:Regions")) is not None:
        _put_regions(description, found.regions, size, orientation)
    ET.indent(root)
    packet: bytes = ET.tostring(root, encoding="utf-8")
    return _PACKET % packet


def read(source: Source) -> Iterator[Item | Skipped]:
    """Photos with sidecars, from a folder and those below it, or from one sidecar. In a folder, a
    sidecar that cannot be read is skipped, as a photo would be."""
    for sidecar in sorted(source.path.rglob("*.xmp")) if source.path.is_dir() else [source.path]:
        try:
            with reading(str(sidecar)):
                record = _record(source, sidecar)
        except RegionTalkError as error:
            if sidecar == source.path:
                raise
            yield Skipped(
                str(sidecar), "unreadable sidecar", error.message.removeprefix(f"{sidecar}: ")
            )
        else:
            yield Item(str(sidecar), record)


FORMAT = Format(read, min_regions=0)


def orientation_of(photo: str | Path) -> int:
    """The EXIF orientation; 1 (upright) if the photo cannot be read or does not exist."""
    try:
        return Photo(photo, Limits(megapixels=MOST_MEGAPIXELS)).orientation
    except ImageError:
        return 1


def _turned(box: BoxXYXY, orientation: int) -> BoxXYXY:
    """A box of the stored photo on the upright one, in fractions: x, 1 - x, y and 1 - y in some
    order.

    A quarter turn is undone by the opposite one (6 by 8), every other orientation by itself.
    """
    x0, y0, x1, y1 = box
    if orientation in (2, 3, 7, 8):  # left is right
        x0, x1 = 1 - x1, 1 - x0
    if orientation in (3, 4, 6, 7):  # top is bottom
        y0, y1 = 1 - y1, 1 - y0
    return (y0, x0, y1, x1) if orientation in SIDEWAYS_ORIENTATIONS else (x0, y0, x1, y1)


# Writing


def _put_texts(root: ET.Element, text: str, force: bool) -> None:
    """Replaces the texts that we wrote before; with `force` and a new text, those of others too."""
    record = _holder(root, "rt:Text")
    before = record.findtext(_name("rt:Text"))
    for name in TEXTS:
        description = _holder(root, name)
        alternatives = description.find(_name(name))
        is_ours = alternatives is None or _text(alternatives) == before
        if is_ours or (force and text):
            _remove(description, name)
            if text:
                _put_text(description, name, text)
    _remove(record, "rt:Text")
    if text:
        _add(record, "rt:Text").text = text


def _put_text(description: ET.Element, name: str, text: str) -> None:
    alternatives = _add(_add(description, name), "rdf:Alt")
    _add(alternatives, "rdf:li", {"xml:lang": "x-default"}).text = text


def _put_keywords(
    root: ET.Element, name: str, record_name: str, keywords: Sequence[str], force: bool
) -> None:
    """Replaces the keywords that we wrote before, which the property `record_name` lists; those of
    other programs are kept."""
    description = _holder(root, name)
    record = _holder(root, record_name)
    existing = _items(description, name)
    before = _items(record, record_name)
    theirs = [word for word in existing if word not in before]
    deleted = [] if force else [word for word in before if word not in existing]
    taken = {word.casefold() for word in (*theirs, *deleted)}
    ours = [word for word in keywords if word.casefold() not in taken]
    if existing or ours:
        _put_items(description, name, [*theirs, *ours])
    if before or ours:
        _put_items(record, record_name, [*ours, *deleted])


def _items(description: ET.Element, name: str) -> list[str]:
    """The texts of a list, without empty ones."""
    holder = description.find(_name(name))
    items = [] if holder is None else holder.iter(_name("rdf:li"))
    return [text for item in items if (text := (item.text or "").strip())]


def _put_items(description: ET.Element, name: str, texts: Sequence[str]) -> None:
    _remove(description, name)
    if texts:
        bag = _add(_add(description, name), "rdf:Bag")
        for text in texts:
            _add(bag, "rdf:li").text = text


def _put_regions(
    description: ET.Element, regions: Sequence[Region], size: tuple[int, int], orientation: int
) -> None:
    """Replaces the regions that we wrote before; those of other programs are kept."""
    width, height = size if orientation not in SIDEWAYS_ORIENTATIONS else size[::-1]
    group = description.find(_name("mwg-rs:Regions"))
    others = (
        []
        if group is None
        else [item for item in _region_items(group) if _field(item, "rt:Score") is None]
    )
    _remove(description, "mwg-rs:Regions")
    if not regions and not others:
        return
    group = _add(description, "mwg-rs:Regions", _RESOURCE)
    stored = {"stDim:w": str(width), "stDim:h": str(height), "stDim:unit": "pixel"}
    _add(group, "mwg-rs:AppliedToDimensions", stored)
    bag = _add(_add(group, "mwg-rs:RegionList"), "rdf:Bag")
    bag.extend(others)
    for region in regions:
        x0, y0, x1, y1 = region.xyxy
        upright = (x0 / size[0], y0 / size[1], x1 / size[0], y1 / size[1])
        left, top, right, bottom = _turned(upright, {6: 8, 8: 6}.get(orientation, orientation))
        item = _add(bag, "rdf:li", _RESOURCE)
        sides = {
            "x": (left + right) / 2,
            "y": (top + bottom) / 2,
            "w": right - left,
            "h": bottom - top,
        }
        area = {f"stArea:{side}": f"{value:.10g}" for side, value in sides.items()} | {
            "stArea:unit": "normalized"
        }
        _add(item, "mwg-rs:Area", area)
        _add(item, "mwg-rs:Name").text = region.caption
        _add(_add(item, "mwg-rs:Extensions", _RESOURCE), "rt:Score").text = f"{region.score:.6g}"


def _add(parent: ET.Element, name: str, attributes: Mapping[str, str] | None = None) -> ET.Element:
    return ET.SubElement(
        parent, _name(name), {_name(key): value for key, value in (attributes or {}).items()}
    )


def _remove(description: ET.Element, name: str) -> None:
    for element in description.findall(_name(name)):
        description.remove(element)


def _holder(root: ET.Element, name: str) -> ET.Element:
    """The element of a sidecar that has a property, or that gets it; created if there is none.
    Programs such as exiftool have an element for each namespace."""
    rdf = root if root.tag == _name("rdf:RDF") else root.find(_name("rdf:RDF"))
    if rdf is None:
        rdf = _add(root, "rdf:RDF")
    descriptions = rdf.findall(_name("rdf:Description"))
    if not descriptions:
        return _add(rdf, "rdf:Description", {"rdf:about": ""})
    holding = (
        description for description in descriptions if description.find(_name(name)) is not None
    )
    return next(holding, descriptions[0])


def _name(short: str) -> str:
    """`dc:description` -> `{http://…}description`."""
    prefix, _, name = short.partition(":")
    return f"{{{SPACES[prefix]}}}{name}"


# Reading


def _record(source: Source, sidecar: Path) -> Record:
    root = _parse(read_file(sidecar, LONGEST_LINE))
    photo = _photo_of(source, sidecar)
    orientation = orientation_of(photo)
    texts: list[str] = []
    regions: list[TrueRegion] = []
    size = (0, 0)
    for description in root.iter(_name("rdf:Description")):
        elements = chain.from_iterable(description.findall(_name(name)) for name in TEXTS)
        texts += [_text(element) for element in elements]
        for group in description.findall(_name("mwg-rs:Regions")):
            size = size if all(size) else _size(group, photo, orientation)
            named = (
                (item, (_field(item, "mwg-rs:Name") or "").strip()) for item in _region_items(group)
            )
            regions += [_region(item, name, size, orientation) for item, name in named if name]
    sentences = tuple(dict.fromkeys(text for text in texts if text.strip()))
    split = source.split_for(photo.name, default="train")
    return Record(str(photo), *size, split, sentences=sentences, regions=tuple(regions))


def _photo_of(source: Source, sidecar: Path) -> Path:
    """The photo that a sidecar belongs to; `x.xmp`, as Adobe writes it, to the photo with that
    stem."""
    folder = sidecar.parent
    if source.images is not None:
        folder = source.images / (
            folder.relative_to(source.folder) if folder != source.folder else ""
        )
    photo = folder / sidecar.stem
    if photo.suffix.lower() in SUFFIXES:
        return photo
    suffixes = chain.from_iterable((end, end.upper()) for end in SUFFIXES)
    places = (photo.with_name(photo.name + suffix) for suffix in suffixes)
    return next((place for place in places if place.is_file()), photo)


def _size(group: ET.Element, photo: Path, orientation: int) -> tuple[int, int]:
    """Size of the upright photo, from the regions, else from the photo."""
    dimensions = group.find(f".//{_name('mwg-rs:AppliedToDimensions')}")
    sides = [] if dimensions is None else [_field(dimensions, f"stDim:{side}") for side in "wh"]
    if None in sides or not sides:
        return Photo(photo).size
    width, height = (round(float(str(side))) for side in sides)
    return (height, width) if orientation in SIDEWAYS_ORIENTATIONS else (width, height)


def _region_items(group: ET.Element) -> list[ET.Element]:
    return group.findall(f".//{_name('mwg-rs:RegionList')}/*/{_name('rdf:li')}")


def _region(item: ET.Element, name: str, size: tuple[int, int], orientation: int) -> TrueRegion:
    area = item.find(f".//{_name('mwg-rs:Area')}")
    if area is None:
        raise ValueError(f"the region {name!r} has no area")
    values = [_field(area, f"stArea:{side}") for side in "xywh"]
    x, y, w, h = (math.nan if value is None else float(value) for value in values)
    if not math.isfinite(x + y + w + h):
        raise ValueError(f"the region {name!r} is not a rectangle")
    box = _turned((x - w / 2, y - h / 2, x + w / 2, y + h / 2), orientation)
    x0, y0, x1, y1 = (
        round(side * length, 2) for side, length in zip(box, (*size, *size), strict=True)
    )
    score = _field(item, "rt:Score")
    return TrueRegion((x0, y0, x1, y1), name, score=None if score is None else float(score))


def _field(node: ET.Element, short: str) -> str | None:
    """A property of a structure; XMP writes it as an attribute or an element, directly or one level
    below."""
    name = _name(short)
    for holder in node.iter():
        if name in holder.attrib:
            return holder.attrib[name]
        if holder.tag == name:
            return holder.text or ""
    return None


def _text(alternatives: ET.Element) -> str:
    """A text in several languages: its default, which comes first."""
    item = alternatives.find(f".//{_name('rdf:li')}")
    return ((item.text if item is not None else alternatives.text) or "").strip()


def _parse(data: bytes) -> ET.Element:
    """Parses a sidecar, without document types; its prefixes are kept for writing it again."""
    if _UNSAFE.search(data):
        raise ValueError("an XML document type, which sidecars do not have")
    try:
        prefixes = [prefix for _, prefix in ET.iterparse(io.BytesIO(data), ("start-ns",))]
        root = ET.fromstring(
            data, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True, insert_pis=True))
        )
    except (ET.ParseError, LookupError) as error:  # of the text, or of an encoding it names
        raise ValueError(f"wrong XML: {error}") from error
    known = set(SPACES.values())
    for prefix, space in cast(list[tuple[str, str]], prefixes):
        if prefix and space not in known and not re.fullmatch(r"ns\d+", prefix):
            ET.register_namespace(prefix, space)
    if root.find(f".//{_name('rdf:Description')}") is None and root.tag != _name("rdf:RDF"):
        raise ValueError("not an XMP sidecar")
    return root


for _prefix, _space in SPACES.items():
    ET.register_namespace(_prefix, _space)
