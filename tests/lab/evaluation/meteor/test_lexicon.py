from __future__ import annotations

from itertools import pairwise
from types import SimpleNamespace

import pytest

from regiontalk.lab.evaluation.meteor.lexicon import Lexicon, java_hash


@pytest.fixture
def lexicon() -> Lexicon:
    tables = SimpleNamespace(
        abbreviations=frozenset(["Mr"]),
        numeric_abbreviations=frozenset(["No"]),
        function_words=frozenset(["a", "the"]),
        synsets=lambda word: frozenset({"dog": [7, 9], "dogs": [7]}.get(word, [])),
        phrase_word=lambda word: {"dog": 3}.get(word, -1),
        paraphrases=None,
    )
    return Lexicon(tables)  # type: ignore[arg-type]


def numbers(lexicon: Lexicon, texts: list[str]) -> list[list[int]]:
    """The words of each text."""
    words, first_word = lexicon.sentences(texts)
    return [words[begin:end].tolist() for begin, end in pairwise(first_word)]


def test_what_is_known_of_words(lexicon: Lexicon) -> None:
    assert numbers(lexicon, ["The dogs dog", "zebra the"]) == [[0, 1, 2], [3, 0]]
    words = lexicon.words()
    assert words.key.tolist() == [java_hash(word) for word in ("the", "dogs", "dog", "zebra")]
    assert words.stem_key.tolist() == [java_hash(word) for word in ("the", "dog", "dog", "zebra")]
    assert words.node.tolist() == [-1, -1, 3, -1]
    assert words.is_function_word.tolist() == [True, False, False, False]
    assert words.first_synset.tolist() == [0, 0, 1, 3, 3]
    assert sorted(words.synsets[1:3]) == [7, 9]


def test_words_met_later_are_known_too(lexicon: Lexicon) -> None:
    numbers(lexicon, ["a dog"])
    assert len(lexicon.words().key) == 2
    assert numbers(lexicon, ["a cat"]) == [[0, 2]]
    assert lexicon.words().key.tolist() == [java_hash(word) for word in ("a", "dog", "cat")]


def test_texts_are_normalized(lexicon: Lexicon) -> None:
    assert numbers(lexicon, ["Mr. Dog", "", "No. Five, mr. dog!"]) == [
        [0, 1],
        [],
        [2, 3, 4, 5, 0, 1, 6],
    ]
    known = ("mr.", "dog", "no", ".", "five", ",", "!")
    assert lexicon.words().key.tolist() == [java_hash(word) for word in known]


def test_java_hash() -> None:
    assert java_hash("") == 0
    assert java_hash("hello") == 99162322
    assert java_hash("an") == java_hash("c0")
    assert java_hash("😀") == 1772899
    assert java_hash("polygenelubricants") == 1 << 31


# From the vocabulary that is published with the algorithm, and words of every step and exception.
STEMS = """
consign consign | consigned consign | consigning consign | consignment consign | consist consist
consistency consist | consistently consist | consolation consol | conspicuous conspicu | conspiracy conspiraci
knack knack | knackeries knackeri | knaves knave | knavish knavish | kneaded knead | kneeling kneel
knightly knight | knotted knot | knowledge knowledg
caresses caress | gaps gap | gas gas | this this | kiwis kiwi | ties tie | cries cri | tied tie | focus focus
agreed agre | proceed proceed | plastered plaster | bled bled | luxuriating luxuri | hopping hop | hoping hope
sized size | fishing fish | exceedingly exceed | cry cri | by by | say say | flying fli | yellow yellow
relational relat | conditional condit | rationally ration | valency valenc | digitizer digit | operator oper
feudalism feudal | decisiveness decis | hopefulness hope | callousness callous | formality formal
sensitivity sensit | sensibility sensibl | analogies analog | geology geolog | fully fulli | quickly quick
triplicate triplic | formative format | formalize formal | electrical electr | goodness good
revival reviv | allowance allow | inference infer | airliner airlin | adjustable adjust | irritant irrit
replacement replac | adjustment adjust | dependent depend | adoption adopt | communism communism
activate activ | effective effect | probate probat | rate rate | cease ceas | controll control | roll roll
skis ski | skies sky | dying die | lying lie | idly idl | gently gentl | ugly ugli | early earli | only onli
singly singl | news news | atlas atlas | inning inning | outings outing | canning canning | succeeded succeed
generous generous | generate generat | communicate communic | arsenal arsenal | youth youth | boyish boyish
dog's dog | dogs' dog | 's 's | 'em em | a a | an an | ox ox | 12 12 | naïve naïv
""".replace("\n", " | ").split(" | ")


@pytest.mark.parametrize(("word", "expected"), [pair.split() for pair in STEMS if pair.strip()])
def test_known_stems(word: str, expected: str) -> None:
    """As METEOR 1.5 has them: a later version of the library may change them."""
    stemmer = pytest.importorskip("snowballstemmer.english_stemmer").EnglishStemmer()
    assert stemmer.stemWord(word) == expected
