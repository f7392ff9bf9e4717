"""Large JSON files item by item."""

import json
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from regiontalk.errors import DataError
from regiontalk.io import json_stream
from regiontalk.io.json_stream import stream_array, stream_members

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=12,
)
same_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)


def write(folder: Path, text: str | bytes) -> Path:
    path = folder / "file.json"
    path.write_bytes(text if isinstance(text, bytes) else text.encode())
    return path


@same_folder
@given(
    items=st.lists(values),
    chunk=st.integers(1, 40),
    indent=st.none() | st.integers(0, 2),
    ascii_only=st.booleans(),
)
def test_an_array_cut_anywhere_gives_the_same_items(tmp_path, items, chunk, indent, ascii_only):
    path = write(
        tmp_path,
        json.dumps(items, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "replace"),
    )
    expected = json.loads(path.read_text())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", chunk)
        assert [item for _, item in stream_array(path)] == expected


@same_folder
@given(members=st.dictionaries(st.text(), values), chunk=st.integers(1, 40))
def test_an_object_gives_its_members_and_the_items_of_its_arrays(tmp_path, members, chunk):
    path = write(tmp_path, json.dumps(members))
    expected = [
        (key, item)
        for key, value in members.items()
        for item in (value if isinstance(value, list) else [value])
    ]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", chunk)
        assert list(stream_members(path)) == expected


@same_folder
@given(
    items=st.lists(values, min_size=1),
    chunk=st.integers(1, 40),
    share=st.floats(0, 1, exclude_max=True),
)
def test_a_file_that_breaks_off_is_never_taken_for_whole(tmp_path, items, chunk, share):
    text = json.dumps(items)
    path = write(tmp_path, text[: int(share * len(text))])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_stream, "CHUNK_BYTES", chunk)
        with pytest.raises(DataError, match=r"file\.json: wrong JSON at character"):
            list(stream_array(path))


@pytest.mark.parametrize(
    ("text", "place"),
    [
        ('[{"a": 1}, {"a" 2}]', "character 17"),
        ('[{"x": NaN}]', "NaN is not JSON"),
        ('[{"x": -Infinity}]', "-Infinity is not JSON"),
        ("[1, 2] 3", "character 8: text after the end"),
        ("[1 2]", "character 4: expected ']'"),
        ("", r"the file ends before '\['"),
        ('{"a": 1}', r"expected '\[', found '{'"),
        ("[" * 100_000, "nested too deeply"),
        (b'["\xff"]', "not UTF-8"),
        (b'["abc\xe2\x82', "not UTF-8"),
    ],
)
def test_wrong_json_is_one_line_with_its_place(tmp_path, text, place):
    with pytest.raises(DataError, match=place) as caught:
        list(stream_array(write(tmp_path, text)))
    assert "\n" not in caught.value.message


def test_an_early_mistake_is_found_without_reading_the_whole_file(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", 64)
    path = write(tmp_path, '[{"a": oops}, ' + "1," * 100_000 + "1]")
    reads = []
    original = json_stream._Window._read
    monkeypatch.setattr(
        json_stream._Window, "_read", lambda self: reads.append(1) or original(self)
    )
    with pytest.raises(DataError, match="character 8"):
        list(stream_array(path))
    assert len(reads) <= 2


def test_an_item_without_end_is_given_up(tmp_path, monkeypatch):
    monkeypatch.setattr(json_stream, "CHUNK_BYTES", 8)
    monkeypatch.setattr(json_stream, "LONGEST_LINE", 100)
    with pytest.raises(DataError, match="one item of more than 100 characters"):
        list(stream_array(write(tmp_path, '["' + "a" * 1000 + '"]')))


def test_a_byte_order_mark_is_no_mistake(tmp_path):
    assert list(stream_members(write(tmp_path, b"\xef\xbb\xbf{}"))) == []


def test_a_missing_file_and_a_folder_are_named(tmp_path):
    with pytest.raises(DataError, match=r"none\.json: No such file"):
        list(stream_array(tmp_path / "none.json"))
    with pytest.raises(DataError, match="a folder, not a file"):
        list(stream_members(tmp_path))
