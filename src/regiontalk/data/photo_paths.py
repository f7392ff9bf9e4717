"""Where the photos of a source lie, and how large they are."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from PIL import ExifTags, Image

from regiontalk import images
from regiontalk.files import open_file

SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that exchange width and height


@dataclass(frozen=True)
class PhotoFinder:
    """Looks for photos in a folder and in the usual places of a format's download below it.

    `by_name`: also without the folder a source gives them (all of COCO's photos in one folder, say).
    """

    root: Path
    folders: tuple[str, ...] = ("",)
    by_name: bool = True

    def locate(self, image: str) -> tuple[str, bool]:
        """An image's absolute path and whether it is there; a missing one gets the first place looked at."""
        root = str(self.root.absolute())
        names = dict.fromkeys((image, PurePosixPath(image).name if self.by_name else image))
        places = [join_paths(root, folder, name) for folder in self.folders for name in names]
        for place in places:
            if os.path.isfile(place):  # noqa: PTH113
                return place, True
        return places[0], False


def join_paths(*parts: str) -> str:
    """Strings, not Paths: a data set has a hundred thousand of them."""
    return os.path.normpath(os.path.join(*parts))  # noqa: PTH118


def upright_size(path: str) -> tuple[int, int]:
    """Width and height of a photo as it is shown. Of a JPEG only the header is read."""
    try:
        with open_file(Path(path)) as file, Image.open(file, formats=("JPEG",)) as photo:
            width, height = photo.size
            turned = photo.getexif().get(ExifTags.Base.Orientation, 1) in SIDEWAYS
            if width * height <= images.Limits().megapixels * 1e6:
                return (height, width) if turned else (width, height)
    except Exception:
        pass  # whatever is the matter, open_photo says it better
    return images.open_photo(path).size
