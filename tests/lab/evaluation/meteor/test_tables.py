from __future__ import annotations

import gzip
import sys
import zipfile
from pathlib import Path

import pytest

from regiontalk.errors import DataError, MissingExtra
from regiontalk.io.files import cache_folder
from regiontalk.lab.evaluation.meteor import tables
from regiontalk.lab.evaluation.meteor.tables import Sources, Tables

PARAPHRASES = [
    ("a dog", "the dog"),
    ("a dog", "dog"),
    ("dog", "hound"),
    ("dog", "a dog"),
    ("out of the house", "outside"),
]
MEMBERS = {
    "synonym/english.synsets": "dog\n1 2\nhound\n2\nman\n3\nski\n4\nski_jump\n5\ngoose\n6\n",
    "synonym/english.exceptions": "goose\ngeese\nman\nmen\n",
    "function/english.words": "a\nthe\n’\n",
    "nonbreaking/english.prefixes": "# titles\n\nMr\nNo #NUMERIC_ONLY# \n",
}


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Sources:
    made = Sources(tmp_path / "meteor.jar", tmp_path / "paraphrase.gz")
    with zipfile.ZipFile(made.jar, "w") as jar:
        for name, text in MEMBERS.items():
            jar.writestr(name, text)
    write_paraphrases(made, PARAPHRASES)
    monkeypatch.setattr(Sources, "find", lambda: made)
    monkeypatch.setenv("REGIONTALK_CACHE", str(tmp_path / "cache"))
    return made


def write_paraphrases(sources: Sources, pairs: list[tuple[str, str]]) -> None:
    text = "".join(f"0.1\n{source}\n{target}\n" for source, target in pairs)
    sources.paraphrases.write_bytes(gzip.compress(text.encode()))


def node_of(loaded: Tables, phrase: str) -> int:
    """The node of a phrase in the trie, or -1."""
    node, *words = [loaded.phrase_word(word) for word in phrase.split()]
    trie = loaded.paraphrases
    for word in words:
        children = range(trie.first_child[node], trie.first_child[node + 1]) if node >= 0 else ()
        node = next(
            (child for child in children if trie.last_word[child - trie.single_words] == word), -1
        )
    return node


def rewrites(loaded: Tables, phrase: str) -> list[int]:
    node, trie = node_of(loaded, phrase), loaded.paraphrases
    return trie.rewrites[trie.first_rewrite[node] : trie.first_rewrite[node + 1]].tolist()


def test_paraphrases_in_the_order_of_the_file(sources: Sources) -> None:
    loaded = Tables.load()
    for source in {source for source, _ in PARAPHRASES}:
        targets = [node_of(loaded, other) for phrase, other in PARAPHRASES if phrase == source]
        assert rewrites(loaded, source) == targets
        assert -1 not in targets
    assert rewrites(loaded, "hound") == []


def test_unknown_words_and_phrases_have_no_node(sources: Sources) -> None:
    loaded = Tables.load()
    assert loaded.phrase_word("zebra") == -1
    assert node_of(loaded, "dog dog") == -1
    assert node_of(loaded, "hound a") == -1


def test_synonym_sets_of_a_word_and_its_base_forms(sources: Sources) -> None:
    loaded = Tables.load()
    assert loaded.synsets("dog") == {1, 2}
    assert loaded.synsets("dogs") == {1, 2}
    assert loaded.synsets("geese") == {6}
    assert loaded.synsets("men") == {3}
    assert loaded.synsets("skiing") == {4}
    assert loaded.synsets("zebra") == set()


def test_word_lists(sources: Sources) -> None:
    loaded = Tables.load()
    assert loaded.function_words == {"a", "the", "’"}
    assert loaded.abbreviations == {"Mr"}
    assert loaded.numeric_abbreviations == {"No"}


def test_built_once(sources: Sources, monkeypatch: pytest.MonkeyPatch) -> None:
    said: list[str] = []
    built = Tables.load(said.append)
    assert len(said) == 1
    monkeypatch.delattr(tables, "build")
    loaded = Tables.load(said.append)
    assert len(said) == 1
    assert rewrites(loaded, "a dog") == rewrites(built, "a dog")


@pytest.mark.parametrize("damage", [b"", b"not a zip file", None])
def test_a_corrupt_cache_is_built_again(
    sources: Sources, damage: bytes | None, tmp_path: Path
) -> None:
    Tables.load()
    (path,) = (tmp_path / "cache").iterdir()
    good = path.read_bytes()
    middle = len(good) // 2
    path.write_bytes(damage if damage is not None else good[:middle])
    assert Tables.load().synsets("dog") == {1, 2}
    assert len(path.read_bytes()) == len(good)


def test_a_flipped_byte_never_gives_wrong_tables(sources: Sources, tmp_path: Path) -> None:
    Tables.load()
    (path,) = (tmp_path / "cache").iterdir()
    good = path.read_bytes()
    for place in [good.index(b"dog\nhound"), *range(0, len(good), 41)]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 4]) + good[place + 1 :])
        loaded = Tables.load()
        assert loaded.synsets("dog") == {1, 2}
        assert rewrites(loaded, "a dog") == [node_of(loaded, "the dog"), node_of(loaded, "dog")]


def test_new_contents_get_a_new_cache(sources: Sources) -> None:
    Tables.load()
    write_paraphrases(sources, [*PARAPHRASES, ("dog", "beast")])
    loaded = Tables.load()
    assert rewrites(loaded, "dog")[-1] == node_of(loaded, "beast")


def test_a_folder_that_cannot_be_written_is_no_failure(
    sources: Sources, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("REGIONTALK_CACHE", str(tmp_path / "file" / "cache"))
    said: list[str] = []
    assert Tables.load(said.append).synsets("dog") == {1, 2}
    assert "cannot be written" in said[-1]


def test_broken_sources_are_named(sources: Sources) -> None:
    sources.paraphrases.write_bytes(sources.paraphrases.read_bytes()[:-12])
    with pytest.raises(DataError, match=str(sources.jar.parent)):
        Tables.load()
    sources.jar.write_bytes(b"no jar")
    with pytest.raises(DataError, match=str(sources.jar.parent)):
        Tables.load()
    assert not cache_folder().exists()


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pycocoevalcap", None)
    with pytest.raises(MissingExtra) as raised:
        Tables.load()
    assert raised.value.extra == "evaluate"
    assert "regiontalk[evaluate]" in str(raised.value.hint)
