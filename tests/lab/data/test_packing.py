"""Tar shards."""

import tarfile

import pytest

from regiontalk.lab.data import packing
from regiontalk.lab.data.packing import Packer
from regiontalk.lab.data.records import Record, TarShards, TrueRegion


def record(name: str, regions: tuple[TrueRegion, ...] = ()) -> Record:
    return Record(name, 96, 64, regions=regions)


def test_a_shard_is_closed_when_it_is_full(tmp_path, scene, monkeypatch):
    monkeypatch.setattr(packing, "SHARD_BYTES", 3000)
    packer = Packer(tmp_path, 96)
    shards = [packer.pack(record(f"{n}.jpg"), scene).shard for n in range(5)]
    packer.close()
    assert shards == sorted(shards)
    assert shards[0] == "images-00000.tar"
    assert len(set(shards)) > 1
    reader = TarShards(tmp_path)
    assert all(
        reader.read(shard, f"{n}.jpg").startswith(b"\xff\xd8") for n, shard in enumerate(shards)
    )


def test_members_carry_no_time_and_no_owner(tmp_path, scene):
    packer = Packer(tmp_path, 96)
    packer.pack(record("a.png"), scene)
    packer.close()
    with tarfile.open(tmp_path / "images-00000.tar") as tar:
        [member] = tar
    assert (member.name, member.mtime, member.uid, member.gid, member.uname, member.gname) == (
        "a.jpg",
        0,
        0,
        0,
        "",
        "",
    )


def test_plural_boxes_are_scaled_too(tmp_path, scene):
    region = TrueRegion((0, 0, 96, 64), "two", boxes_xyxy=((0, 0, 48, 32), (48, 32, 96, 64)))
    packer = Packer(tmp_path, 48)
    packed = packer.pack(record("a.jpg", (region,)), scene)
    packer.close()
    assert packed.regions[0].xyxy == (0, 0, 48, 32)
    assert packed.regions[0].boxes_xyxy == ((0, 0, 24, 16), (24, 16, 48, 32))


def test_a_small_photo_is_not_enlarged(tmp_path, scene):
    packer = Packer(tmp_path, 1000)
    packed = packer.pack(record("a.jpg"), scene)
    packer.close()
    assert (packed.width, packed.height) == (96, 64)


@pytest.mark.parametrize("size", [(960, 20), (20, 960)])
def test_a_very_long_photo_scales_each_side_by_itself(tmp_path, make_scene, size):
    region = TrueRegion((0, 0, *size), "all")
    packer = Packer(tmp_path, 96)
    packed = packer.pack(Record("a.jpg", *size, regions=(region,)), make_scene(size))
    packer.close()
    assert sorted((packed.width, packed.height)) == [16, 96]
    assert packed.regions[0].xyxy == (0, 0, packed.width, packed.height)
