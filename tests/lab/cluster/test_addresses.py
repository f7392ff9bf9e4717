from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyarrow", reason="no pyarrow: pip install 'regiontalk[cluster]'")

from pyarrow import fs

from regiontalk.lab.cluster import addresses


@pytest.mark.parametrize(
    ("place", "path"),
    [
        ("s3://bucket", "bucket"),
        ("s3://bucket/a b/50%.jpg", "bucket/a b/50%.jpg"),
        ("s3://b/x/", "b/x"),
    ],
)
def test_a_place_in_a_bucket(place: str, path: str) -> None:
    system, found = addresses.locate(
        place, "region=eu-west-1&scheme=http&endpoint_override=127.0.0.1:9"
    )
    assert isinstance(system, fs.S3FileSystem)
    assert (system.region, found) == ("eu-west-1", path)


def test_a_place_on_this_machine() -> None:
    assert addresses.locate("file:///tmp/x")[1] == "/tmp/x"
    assert addresses.locate("file:///")[1] == "/"


def test_an_address_survives_being_a_path() -> None:
    for address in (
        "s3://bucket/out.parquet",
        "file:///tmp/x",
        "s3://bucket/x?scheme=http&endpoint_override=127.0.0.1:9",
    ):
        assert addresses.full_address(Path(address)) == address
    assert addresses.full_address("out") == str(Path.cwd() / "out")
