"""Arrays are read from untrusted files, or the file is refused."""

import io
import struct

import numpy as np
import pytest

from regiontalk.io.arrays import kinds_of, read_arrays


def packed(**arrays: object) -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, **arrays)  # type: ignore[arg-type]
    return file.getvalue()


def with_method(data: bytes, method: int) -> bytes:
    """The same file, whose first member says that it is packed in another way."""
    changed = bytearray(data)
    central = data.index(b"PK\x01\x02")
    struct.pack_into("<H", changed, 8, method)
    struct.pack_into("<H", changed, central + 10, method)
    return bytes(changed)


def encrypted(data: bytes) -> bytes:
    changed = bytearray(data)
    central = data.index(b"PK\x01\x02")
    changed[6] |= 1
    changed[central + 8] |= 1
    return bytes(changed)


SMALL = packed(codes=np.arange(6, dtype=np.float32).reshape(2, 3))


def test_arrays_come_back() -> None:
    arrays = read_arrays(SMALL, 1 << 20)
    assert kinds_of(arrays) == {"codes": (np.float32, 2)}
    assert arrays["codes"].tolist() == [[0, 1, 2], [3, 4, 5]]


def test_the_size_counts_when_unpacked() -> None:
    zeros = packed(zeros=np.zeros(3 << 20, dtype=np.uint8))
    assert len(zeros) < 1 << 16
    with pytest.raises(ValueError, match="larger than 2 MB"):
        read_arrays(zeros, 2 << 20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"no arrays",
        SMALL[:-30],
        with_method(SMALL, 99),
        encrypted(SMALL),
        packed(objects=np.array([{}], dtype=object)),
    ],
)
def test_anything_else_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"not numpy arrays|pickle|magic"):
        read_arrays(data, 1 << 20)
