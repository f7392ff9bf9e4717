from __future__ import annotations

import copy
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import regiontalk
from made_up_entries import entry
from regiontalk.errors import UsageError
from regiontalk.inference.alignment import ALIGNMENT_HEAD
from regiontalk.inference.phrases import read_aligned
from regiontalk.model import Model
from regiontalk.models.runtime import Runtime
from regiontalk.models.settings import SearchConfig, SentencePredictionConfig
from regiontalk.search import query
from regiontalk.search.build import identify
from regiontalk.search.query import Searcher, _best, parse
from regiontalk.search.sqlite.store import SqliteStore
from regiontalk.search.store import Entry, Floats, Where


@pytest.mark.parametrize(
    ("query", "wanted", "unwanted"),
    [
        ("a dog", ["a dog"], []),
        ("a dog; a red ball ;", ["a dog", "a red ball"], []),
        ("beach -people", ["beach"], ["people"]),
        ('-"palm trees" beach -x-y', ["beach"], ['"palm trees"', "x-y"]),
        ("a “red ball” -“a dog”", ['a "red ball"'], ['"a dog"']),
        ("t-shirt", ["t-shirt"], []),
        ("a beach without people", ["a beach"], ["people"]),
        ("a dog; a beach, but no palm trees -cat", ["a dog", "a beach"], ["cat", "palm trees"]),
        ("a dog with no leash; a ball", ["a dog", "a ball"], ["leash"]),
        (
            "a boy without a shirt jumps into the water",
            ["a boy without a shirt jumps into the water"],
            [],
        ),
        ('"a dog without people"', ['"a dog without people"'], []),
    ],
)
def test_queries_are_taken_apart(query: str, wanted: list[str], unwanted: list[str]) -> None:
    assert parse(query) == (tuple(wanted), tuple(unwanted))


def test_without_is_a_word_if_words_are_read_as_typed() -> None:
    assert parse("a beach without people", as_typed=True) == (("a beach without people",), ())


@pytest.mark.parametrize("query", ["", "  ", "-people", ";;", "a;" * 30])
def test_queries_that_ask_nothing_are_refused(query: str) -> None:
    with pytest.raises(UsageError):
        parse(query)


@pytest.fixture(scope="module")
def model(aligning_model: Path) -> Model:
    return regiontalk.load(aligning_model, threads=1)


def searcher(
    model: Model, folder: Path, entries: list[Entry], state: int = 0, **fit: float
) -> Searcher:
    """Over some photos, with a model whose head has a fit for search."""
    runtime = model.runtime
    head = runtime.heads[ALIGNMENT_HEAD]
    settings = replace(head.info.settings, search=SearchConfig(**fit) if fit else None)
    known = {
        **runtime.heads,
        ALIGNMENT_HEAD: replace(head, info=replace(head.info, settings=settings)),
    }
    changed = type(runtime).__new__(type(runtime))
    changed.__dict__ = {**runtime.__dict__, "heads": known}
    store = SqliteStore(folder, replace(identify(model), state=state))
    store.put(entries)
    return Searcher(store, changed)


def shows(model: Model, number: int, phrases: list[str], caption: str = "") -> Entry:
    """A photo with regions that fit the words of some `PHRASES` by 1, and those of the others by
    0."""
    words = [phrase.vectors for phrase in read_aligned(model.runtime, PHRASES)]
    fits = [
        np.repeat([float(text == one) for one in PHRASES], [len(some) for some in words])
        for text in phrases
    ]
    solved = [np.linalg.lstsq(np.concatenate(words), wanted, rcond=None)[0] for wanted in fits]
    vectors = np.stack([np.zeros(words[0].shape[1]), *solved]).astype(np.float32)
    state = np.zeros(identify(model).state, np.float32)
    return replace(
        entry(number, rows=len(vectors)), vectors=vectors, captions=(caption,), state=state
    )


class Head:
    """Finds a phrase likelier by as much as a photo's state says."""

    settings = SentencePredictionConfig()

    def __init__(self, runtime: Runtime) -> None: ...

    def gains(self, words: list[str], counts: list[bool], scenes: Floats, regions: int) -> Floats:
        assert list(zip(words, counts, strict=True))[-2:] == [("red", True), ("circle", True)]
        return scenes[:, 0]


def names(found: regiontalk.Hits) -> list[str]:
    return [hit.path for hit in found]


PHRASES = ("red circle", "blue square")


def test_words_of_the_model_are_those_of_this_test(model: Model) -> None:
    known = set(model.runtime.head(ALIGNMENT_HEAD).words.words)
    assert known.issuperset(" ".join(PHRASES).split()), sorted(known)


def test_photos_that_show_it_come_first(model: Model, tmp_path: Path) -> None:
    entries = [
        shows(model, 0, ["blue square"]),
        shows(model, 1, ["blue square", "red circle"]),
        shows(model, 2, []),
    ]
    asked = searcher(model, tmp_path / "index", entries)
    found = asked.search("red circle", 2, None, Where())
    assert names(found)[0] == "0001.jpg"
    assert (found.searched, len(found)) == (3, 2)
    best = found[0]
    assert [match.word for match in best.words] == ["red", "circle"]
    assert {
        best.regions[match.region].caption for match in best.words if match.region is not None
    } == {"2 dogs of 1"}
    asked.store.close()


def test_photos_below_the_line_are_less_likely_and_not_hidden(model: Model, tmp_path: Path) -> None:
    entries = [shows(model, 0, ["blue square"]), shows(model, 1, ["red circle"])]
    asked = searcher(model, tmp_path / "index", entries, fit=4.0, bias=-2.0, likely=0.5)
    found = asked.search("red circle", 5, None, Where())
    assert [(hit.path, hit.likely) for hit in found] == [("0001.jpg", True), ("0000.jpg", False)]
    assert names(asked.search("red circle", 5, 0.5, Where())) == ["0001.jpg"], (
        "an explicit threshold is a filter"
    )
    asked.store.forget(["0001.jpg"])
    found = asked.search("red circle", 5, None, Where())
    assert [(hit.path, hit.likely) for hit in found] == [("0000.jpg", False)]
    assert found.likely == ()
    assert found.closest is not None
    assert found.closest < 0.5
    asked.store.close()


def captioned(entry: Entry, caption: str, score: float = 0.9) -> Entry:
    regions = (
        entry.regions[0],
        replace(entry.regions[1], caption=caption, score=score),
        *entry.regions[2:],
    )
    return replace(entry, regions=regions, captions=(caption,))


@pytest.mark.parametrize(
    ("caption", "score", "likely"),
    [
        ("a red circle", 0.9, True),
        ("two red circles", 0.9, True),
        ("a red circle", 0.1, False),  # not shown
        ("a circle", 0.9, False),
        ("a red square", 0.9, False),
    ],
)
def test_a_photo_with_the_words_in_a_shown_caption_is_likely(
    model: Model, tmp_path: Path, caption: str, score: float, likely: bool
) -> None:
    entries = [
        captioned(shows(model, 0, ["blue square"]), caption, score),
        shows(model, 1, ["blue square"]),
    ]
    entries[1] = replace(entries[1], vectors=2 * entries[1].vectors)
    asked = searcher(model, tmp_path / "index", entries, fit=4.0, bias=-2.0, likely=0.9)
    found = {hit.path: hit.likely for hit in asked.search("a red circle", 5, None, Where())}
    assert found == {"0000.jpg": likely, "0001.jpg": False}
    assert not likely or list(found) == ["0000.jpg", "0001.jpg"], "likely ones come first"
    asked.store.close()


def test_several_phrases_and_unwanted_ones(model: Model, tmp_path: Path) -> None:
    both = shows(model, 1, ["blue square", "red circle"])
    asked = searcher(
        model,
        tmp_path / "index",
        [shows(model, 0, ["red circle"]), both],
        fit=4.0,
        bias=-2.0,
        likely=0.5,
    )
    found = asked.search("red circle; blue square", 5, None, Where())
    assert [(hit.path, hit.likely) for hit in found] == [("0001.jpg", True), ("0000.jpg", False)]
    without = asked.search('red circle -"blue square"', 5, None, Where())
    assert names(without) == ["0000.jpg"]
    assert without.closest == without[0].score
    assert asked.search("red circle -circle", 5, None, Where()).closest is None
    asked.store.close()


def test_a_shown_caption_with_unwanted_words_leaves_a_photo_out(
    model: Model, tmp_path: Path
) -> None:
    entries = [
        captioned(shows(model, number, ["red circle"]), caption)
        for number, caption in enumerate(["blue squares", "a blue shape"])
    ]
    asked = searcher(model, tmp_path / "index", entries, fit=4.0, bias=-2.0, likely=0.5)
    assert names(asked.search('red circle -"blue square"', 5, None, Where())) == ["0001.jpg"]
    asked.store.close()


def test_captions_decide_between_equals(model: Model, tmp_path: Path) -> None:
    entries = [
        captioned(shows(model, number, ["red circle"]), caption)
        for number, caption in enumerate(["a square", "red circles"])
    ]
    entries[1] = replace(entries[1], vectors=entries[0].vectors)
    asked = searcher(model, tmp_path / "index", entries, fit=1.0, captions=2.0)
    found = asked.search("a red circle", 5, None, Where())
    assert names(found) == ["0001.jpg", "0000.jpg"]
    assert found[0].score > found[1].score
    asked.store.close()


def test_the_language_model_decides_among_the_best(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "SentenceHead", Head)
    entries = [shows(model, number, ["red circle"]) for number in range(3)]
    vectors, states = (
        [entries[0].vectors, entries[0].vectors, 0.9 * entries[0].vectors],
        [-4.0, -3.0, -1.0],
    )
    entries = [
        replace(entry, vectors=own, state=np.array([state], np.float32))
        for entry, own, state in zip(entries, vectors, states, strict=True)
    ]
    asked = searcher(model, tmp_path / "index", entries, state=1, likelihood=1.0)
    found = asked.search("red circle", 5, None, Where())
    assert names(found) == ["0002.jpg", "0001.jpg", "0000.jpg"]
    monkeypatch.setattr(query, "SECOND_LOOK", 2)
    monkeypatch.setattr(query, "SECOND_LOOK_WORDS", 4)
    assert names(asked.search("red circle", 3, None, Where())) == [
        "0001.jpg",
        "0000.jpg",
        "0002.jpg",
    ]
    asked.store.close()


def test_a_score_does_not_depend_on_other_photos(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "SentenceHead", Head)
    photo = replace(shows(model, 0, ["red circle"], "a circle"), state=np.array([-2.0], np.float32))
    others = [
        replace(
            shows(model, number, ["blue square"], "a red square"),
            state=np.array([number], np.float32),
        )
        for number in range(1, 6)
    ]
    scores = []
    for name, entries in (("alone", [photo]), ("among", [photo, *others])):
        asked = searcher(
            model,
            tmp_path / name,
            entries,
            state=1,
            fit=2.0,
            captions=1.0,
            likelihood=0.5,
            bias=-1.0,
        )
        scores += [
            hit.score
            for hit in asked.search("a red circle", 9, 0.0, Where())
            if hit.path == photo.file.path
        ]
        asked.store.close()
    assert scores[0] == scores[1]


def test_words_prefer_places_that_people_would_mark(model: Model, tmp_path: Path) -> None:
    photo = shows(model, 0, ["red circle", "red circle"])
    head = model.runtime.heads[ALIGNMENT_HEAD]
    settings = replace(head.info.settings, place_weight=0.1)
    changed = replace(head, info=replace(head.info, settings=settings))
    runtime = copy.copy(model.runtime)
    runtime.heads = {**runtime.heads, ALIGNMENT_HEAD: changed}
    for better in (1, 2):
        raw_scores = tuple(0.9 if row == better else 0.1 for row in range(3))
        entries = [replace(photo, raw_scores=raw_scores)]
        asked = searcher(Model(runtime), tmp_path / str(better), entries)
        (hit,) = asked.search("red circle", 5, None, Where())
        assert [region.caption for region in hit.regions] == [f"{better} dogs of 0"]
        asked.store.close()


def test_unknown_words_are_named_and_count_nothing(
    model: Model, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(query, "SentenceHead", Head)
    photo = replace(shows(model, 0, ["red circle"], "a circle"), state=np.array([0.5], np.float32))
    asked = searcher(
        model, tmp_path / "index", [photo], state=1, fit=2.0, captions=1.0, likelihood=0.5
    )
    found = asked.search("red quokka circle", 5, None, Where())
    assert found[0].score == asked.search("red circle", 5, None, Where())[0].score
    assert found.unknown == ("quokka",)
    assert [(match.word, match.region is None) for match in found[0].words] == [
        ("red", False),
        ("quokka", True),
        ("circle", False),
    ]
    nothing = asked.search("quokka", 5, None, Where())
    assert (len(nothing), nothing.searched, nothing.unknown) == (0, 0, ("quokka",))
    assert "quokka" in nothing.notes[0]
    asked.store.close()


def test_typing_mistakes_are_corrected_unless_in_quotes_or_as_typed(
    model: Model, tmp_path: Path
) -> None:
    asked = searcher(model, tmp_path / "index", [shows(model, 0, ["red circle"])])
    found = asked.search("a photo of a red cirlce", 5, None, Where())
    assert found.corrected == {"cirlce": "circle"}
    assert "cirlce" in found.notes[0]
    assert [match.word for match in found[0].words] == ["a", "red", "circle"]
    plain = asked.search("a red circle", 5, None, Where())
    assert (found[0].score, plain.notes) == (plain[0].score, ())
    for typed in (
        asked.search('red "cirlce"', 5, None, Where()),
        asked.search("red cirlce", 5, None, Where(), as_typed=True),
    ):
        assert (typed.corrected, typed.unknown) == ({}, ("cirlce",))
    asked.store.close()


def test_what_can_be_read_of_a_query_is_used(model: Model, tmp_path: Path) -> None:
    asked = searcher(model, tmp_path / "index", [shows(model, 0, ["red circle"])])
    found = asked.search("red circle; quokka -ein", 5, None, Where())
    assert found[0].score == asked.search("red circle", 5, None, Where())[0].score
    assert found.unknown == ("quokka", "ein")
    foreign = asked.search("ein Hund im Schnee", 5, None, Where())
    assert (len(foreign), foreign.searched) == (0, 0)
    assert "looks like German" in foreign.notes[0]
    asked.store.close()


def test_without_leaves_photos_out_and_it_is_said(model: Model, tmp_path: Path) -> None:
    entries = [shows(model, 0, ["red circle"]), shows(model, 1, ["blue square", "red circle"])]
    asked = searcher(model, tmp_path / "index", entries, fit=4.0, bias=-2.0, likely=0.5)
    with_a_minus = asked.search('red circle -"blue square"', 5, None, Where())
    spoken = asked.search("red circle without a blue square", 5, None, Where())
    assert names(spoken) == names(with_a_minus) == ["0000.jpg"]
    assert spoken.notes == ("Photos that show “blue square” are left out.",)
    as_typed = asked.search("red circle without a blue square", 5, None, Where(), as_typed=True)
    assert len(as_typed) == 2
    asked.store.close()


@pytest.mark.parametrize(
    "query", ["🐈", "\0", "' OR 1=1 --", 'red"', "red circle " * 600, "NEAR(red circle)"]
)
def test_odd_queries_are_answered_or_refused(model: Model, tmp_path: Path, query: str) -> None:
    asked = searcher(model, tmp_path / "index", [shows(model, 0, ["red circle"])], captions=1.0)
    with suppress(UsageError):
        asked.search(query, 5, None, Where())
    asked.store.close()


def test_the_best_are_ranked_and_equals_keep_their_order() -> None:
    scores = np.array([0.5, 0.9, 0.5, 0.1, 0.9])
    assert _best(scores, 3).tolist() == [1, 4, 0]
    assert _best(scores, 99).tolist() == [1, 4, 0, 2, 3]
    assert _best(scores, 0).tolist() == []
