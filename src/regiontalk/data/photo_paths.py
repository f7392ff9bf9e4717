"""Where the photos of a source lie."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path, PurePosixPath


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
