"""What a search finds: its JSON is a promise to users."""

from __future__ import annotations

from regiontalk.hits import Hit, WordMatch
from regiontalk.types import Region


def test_the_json_of_a_hit() -> None:
    words = (WordMatch("red", 0.25, 1), WordMatch("xyzzy", 0.0, None))
    hit = Hit("a.jpg", 1.5, words, (Region((1.0, 2.0, 3.0, 4.0), 0.9, "a mug"),))
    assert hit.to_dict() == {
        "path": "a.jpg",
        "score": 1.5,
        "words": [
            {"word": "red", "score": 0.25, "region": 1},
            {"word": "xyzzy", "score": 0.0, "region": None},
        ],
        "regions": [{"xyxy": [1, 2, 3, 4], "caption": "a mug"}],
    }
