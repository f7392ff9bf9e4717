"""Articles, chosen by the sound that the next word begins with."""

from __future__ import annotations

import re
from collections.abc import Sequence

from regiontalk.language.vocabulary import word_set

ARTICLES = ("a", "an", "the")
POSSESSIVES = ("my", "our", "your", "his", "her", "its", "their")
# Nouns that have no article: "grass", not "a grass".
UNCOUNTABLE = word_set(
    """grass water snow sand ice sky hair clothing furniture jewelry luggage bread rice cheese
    butter corn broccoli cauliflower spinach garlic ginger cabbage lettuce celery kale parsley
    pasta spaghetti popcorn honey milk juice coffee tea wine beer soup meat beef pork bacon ham
    seafood food fruit soap paper wood metal concrete gravel dirt mud hay foliage vegetation
    equipment graffiti lightning smoke fog rain fur coral moss seaweed money yogurt tofu chocolate
    salt sugar flour oil vinegar shampoo toothpaste"""
)
_NO_VOWEL_SOUND = re.compile(r"uni(?!n)|use|usu|ute|uku|euro|one\b|once\b")


def indefinite_article(following: str) -> str:
    """The article "a" or "an": a cat, an umbrella, a uniform, an hourglass."""
    begins_with_vowel = following.startswith(("a", "e", "i", "o", "u", "hour"))
    return "an" if begins_with_vowel and not _NO_VOWEL_SOUND.match(following) else "a"


def with_article(words: Sequence[str]) -> list[str]:
    """An object name with its article, as in phrases: a cat, an orange, a bus; but scissors."""
    is_plural = words[-1].endswith("s") and not words[-1].endswith(("ss", "us"))
    return list(words) if is_plural else [indefinite_article(" ".join(words)), *words]


def as_caption(word: str) -> str:
    """The word as a caption: "a croissant". Names ("Rex"), "our mug", "grass" and words of other
    scripts have no article."""
    parts = word.split()
    has_article = (
        "a" <= word[0] <= "z"
        and parts[0] not in (*ARTICLES, *POSSESSIVES)
        and parts[-1] not in UNCOUNTABLE
    )
    return " ".join(with_article(parts)) if has_article else word
