"""Articles, chosen by the sound that the next word begins with."""

from __future__ import annotations

import re
from collections.abc import Sequence

ARTICLES = ("a", "an", "the")
_NO_VOWEL_SOUND = re.compile(r"uni(?!n)|use|usu|ute|uku|euro|one\b|once\b")


def indefinite_article(following: str) -> str:
    """The article "a" or "an": a cat, an umbrella, a uniform, an hourglass."""
    begins_with_vowel = following.startswith(("a", "e", "i", "o", "u", "hour"))
    return "an" if begins_with_vowel and not _NO_VOWEL_SOUND.match(following) else "a"


def with_article(words: Sequence[str]) -> list[str]:
    """An object name with its article, as in phrases: a cat, an orange, a bus; but scissors."""
    is_plural = words[-1].endswith("s") and not words[-1].endswith(("ss", "us"))
    return list(words) if is_plural else [indefinite_article(" ".join(words)), *words]
