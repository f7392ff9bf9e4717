from __future__ import annotations

import pytest

from regiontalk.language.articles import as_caption, indefinite_article, with_article


@pytest.mark.parametrize(
    ("name", "phrase"),
    [
        ("cat", "a cat"),
        ("orange", "an orange"),
        ("uniform", "a uniform"),
        ("bus", "a bus"),
        ("wine glass", "a wine glass"),
        ("skis", "skis"),
    ],
)
def test_bare_names_get_the_article_that_people_write(name: str, phrase: str) -> None:
    assert " ".join(with_article(name.split())) == phrase


def test_the_sound_decides() -> None:
    words = ("cat", "umbrella", "unicorn", "uninvited guest", "hourglass", "one")
    assert [indefinite_article(word) for word in words] == ["a", "an", "a", "an", "an", "a"]


@pytest.mark.parametrize(
    ("word", "caption"),
    [
        ("croissant", "a croissant"),
        ("accordion", "an accordion"),
        ("glasses", "glasses"),
        ("grass", "grass"),
        ("palm tree", "a palm tree"),
        ("Rex", "Rex"),
        ("our mug", "our mug"),
        ("the cellar", "the cellar"),
        ("犬", "犬"),
        ("<b>x</b>", "<b>x</b>"),
    ],
)
def test_names_and_other_scripts_have_no_article(word: str, caption: str) -> None:
    assert as_caption(word) == caption
