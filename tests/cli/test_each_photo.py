"""Photos one after another, whatever is asked of them."""

from __future__ import annotations

import pytest

from regiontalk.cli.each_photo import put_all
from regiontalk.errors import InputError, RegionTalkError


def test_failures_are_counted_and_named(capsys: pytest.CaptureFixture[str]) -> None:
    kept: list[str] = []
    mixed: list[str | RegionTalkError] = ["a", InputError("b: torn", hint="tape"), "c"]
    assert put_all(mixed, kept.append, 3, "described") == 1
    assert kept == ["a", "c"]
    assert capsys.readouterr().err == "regiontalk: skipped b: torn  (tape)\n"
    with pytest.raises(InputError, match="b: torn"):
        put_all([InputError("b: torn")], kept.append, 1, "described")
    with pytest.raises(InputError, match="none of 2 photos could be described"):
        put_all([InputError("b"), InputError("c")], kept.append, 2, "described")
