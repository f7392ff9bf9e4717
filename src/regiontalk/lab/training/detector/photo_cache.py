"""Decoded photos kept in memory: opening files is most of the work of feeding a fast GPU."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regiontalk.images.photo import resize, resized_size


class PhotoCache:
    """Photos by number, each reduced to `long_side` at most, in memory that forked workers share.

    The memory is taken up as photos come in. Where workers are not forked (Windows, macOS), photos
    are opened anew each time.
    """

    def __init__(self, sizes: Sequence[tuple[int, int]], long_side: int) -> None:
        """`sizes` are the (width, height) of all photos."""
        self.long_side = long_side
        self.shapes = [self._stored_shape(width, height) for width, height in sizes]
        ends = np.cumsum([height * width * 3 for height, width in self.shapes])
        self.starts = [0, *ends.tolist()]
        memory = mmap.mmap(
            -1, self.starts[-1] + len(sizes)
        )  # the photos, then whether each is there
        self.memory: NDArray[np.uint8] | None = np.frombuffer(memory, np.uint8)

    def get(self, number: int, open_photo: Callable[[], Image.Image]) -> Image.Image:
        """Photo `number`, which `open_photo` opens if it is not here yet."""
        if self.memory is None:
            return self._reduced(open_photo())
        place = self.memory[self.starts[number] : self.starts[number + 1]].reshape(
            *self.shapes[number], 3
        )
        filled = self.memory[self.starts[-1] :]
        if not filled[number]:
            photo = self._reduced(open_photo())
            if (photo.height, photo.width) != self.shapes[number]:
                return photo  # not the size its record says: no room was kept for it
            place[:] = np.asarray(photo)
            filled[number] = 1
        return Image.fromarray(place)

    def __getstate__(self) -> dict[str, Any]:
        """What a worker gets that was not forked: everything but the memory."""
        return self.__dict__ | {"memory": None}

    def _stored_shape(self, width: int, height: int) -> tuple[int, int]:
        if max(width, height) <= self.long_side:
            return height, width
        width, height = resized_size(width, height, self.long_side)
        return height, width

    def _reduced(self, photo: Image.Image) -> Image.Image:
        if max(photo.size) <= self.long_side:
            return photo
        return Image.fromarray(resize(photo, self.long_side).pixels)
