"""Noun phrases of several lengths from a parsed sentence: "a cat", "a white cat", "a white cat
eating from a bowl"."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from regiontalk.lab.data.parse_tree import NOUNS, PLURALS, Token, Tree
from regiontalk.language.articles import indefinite_article
from regiontalk.language.object_names import object_names
from regiontalk.language.vocabulary import word_set

MOST_WORDS = 12
MOST_LONG = 3  # phrases that continue after the noun

_ANIMATE = object_names().animals | {"person"}
_PARTS_OF_NOUNS = frozenset(
    ("compound", "poss", "nmod", "npadvmod", "amod", "det")
)  # such a noun heads no phrase
_BEFORE_NOUNS = frozenset(("det", "amod", "compound", "nummod", "nmod", "poss", "quantmod"))
_DETERMINERS = word_set("a an the some several many")
_NUMBERS = word_set("one two three four five six seven eight nine ten")
_COLOURS = word_set("black white red blue green yellow orange pink purple brown gray grey")
_PICTURES = word_set(
    "picture pictures photo photos photograph image images view shot close closeup up scene"
)
# These have no meaning without the thing that they are part of.
_PARTS = word_set(
    """side sides top middle back front end edge bottom corner area part group couple bunch pair set
    row piece lot kind type number variety body pile stack chunk"""
)
_BE = frozenset(("is", "are", "'s", "was", "were"))
_STATES = word_set(  # verbs that are hardly used in the -ing form
    """has have does do can will seems seem appears appear wants want needs need likes like loves
    love contains contain shows show"""
)
# "A man getting" is incomplete.
_UNFINISHED = word_set(
    "being having getting going trying preparing attempting making taking using saying"
)
_ENDING_ADVERBS = word_set(
    "outside outdoors inside indoors together around up down away alone nearby"
)
_ELSEWHERE = word_set(
    "his her their toward towards into onto past"
)  # in phrases about people, not objects
_OBJECTS = ("dobj", "attr", "prt", "xcomp", "ccomp", "oprd", "acomp", "dative")
# A phrase ends before punctuation, a question word or a new clause.
_CLAUSE_TAGS = frozenset(("WDT", "WP", "WRB", ",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH"))
_CLAUSE_DEPS = frozenset(
    ("mark", "advcl", "ccomp", "relcl", "parataxis", "neg", "nsubj", "nsubjpass", "expl")
)
_FINITE = frozenset(("VBZ", "VBP", "VBD"))

_PLAIN = re.compile(r"[a-z]+(?:(?: |-| '|')[a-z]+)*")


@dataclass(frozen=True)
class NounPhrase:
    """A noun (at `head`) with its modifiers, in words that begin at `start`.

    `short` is without adjectives and `full` with them, None if the phrase cannot be used; `long`
    continue after the noun.
    """

    start: int
    head: int
    plural: bool
    short: str | None = None
    full: str | None = None
    long: tuple[str, ...] = ()

    @property
    def texts(self) -> tuple[str, ...]:
        """All phrases, shortest first, each once."""
        return tuple(
            dict.fromkeys(text for text in (self.short, self.full, *self.long) if text is not None)
        )


def noun_phrases(tree: Tree) -> Iterator[NounPhrase]:
    """Every noun of a sentence that heads a phrase; without texts if it cannot be used alone ("his
    dog")."""
    for index, token in enumerate(tree.tokens):
        if token.tag in NOUNS and token.dep not in _PARTS_OF_NOUNS and token.text not in _PICTURES:
            start = _start(tree, index)
            if start is None or _denied(tree, index):
                yield NounPhrase(index, index, token.tag in PLURALS)
            else:
                yield _phrase(tree, start, index, index)


def noun_phrase_between(tree: Tree, start: int, end: int) -> NounPhrase | None:
    """The phrase whose full form are the words from `start` to `end`; None if no noun heads
    them."""
    tokens = tree.tokens
    inside = range(start, end + 1)
    heads = [
        index for index in inside if tokens[index].head == index or tokens[index].head not in inside
    ]
    if len(heads) != 1 or tokens[heads[0]].tag not in NOUNS or _denied(tree, heads[0]):
        return None
    return _phrase(tree, start, heads[0], end) if _start(tree, heads[0]) == start else None


def _phrase(tree: Tree, start: int, head: int, end: int) -> NounPhrase:
    full = tree.text(start, end)
    plain = [_plain(f"{full} {ending}") for ending in _endings(tree, head, end)]
    longer = [text for text in plain if text]
    if len(longer) > MOST_LONG:
        longer = [longer[0], longer[len(longer) // 2], longer[-1]]
    plural = tree.tokens[head].tag in PLURALS
    return NounPhrase(
        start, head, plural, _plain(_short(tree, start, head)), _plain(full), tuple(longer)
    )


def _plain(text: str | None) -> str | None:
    """The phrase, None if it has punctuation, numbers or too many words."""
    return text if text and len(text.split()) <= MOST_WORDS and _PLAIN.fullmatch(text) else None


# Words before the noun


def _start(tree: Tree, head: int) -> int | None:
    """Where the words before a noun begin; None if it cannot be used alone ("his dog", "this dog",
    "12 dogs")."""
    start = head
    for child in reversed([child for child in tree.children[head] if child < head]):
        token = tree.tokens[child]
        left, right = tree.edges(child)
        if right + 1 != start or token.dep not in _BEFORE_NOUNS:
            break
        if token.dep == "det" and token.text not in _DETERMINERS:
            return None
        if token.tag == "PRP$" or (token.tag == "CD" and token.text not in _NUMBERS):
            return None
        start = left
    return start


def _denied(tree: Tree, head: int) -> bool:
    return tree.governor(head).text == "without"


def _short(tree: Tree, start: int, head: int) -> str | None:
    """Determiner or number, compound and noun alone."""
    before = [child for child in tree.children[head] if start <= child < head]
    if tree.tokens[head].text in _PARTS or any(
        tree.tokens[child].dep == "poss" for child in before
    ):
        return None
    first = head
    for child in reversed(before):
        left, right = tree.edges(child)
        if tree.tokens[child].dep != "compound" or right + 1 != first:
            break
        first = left
    names = object_names()
    if names.classes_of(tree.words(start, head)) != names.classes_of(tree.words(first, head)):
        return None  # a hot dog is no dog
    name = tree.text(first, head)
    words = []
    for child in before:
        token = tree.tokens[child]
        if token.dep in ("det", "nummod"):
            is_indefinite = token.text in ("a", "an")
            words.append(indefinite_article(name) if is_indefinite else token.text)
    return " ".join([*words, name])


# Words after the noun


def _endings(tree: Tree, head: int, end: int) -> list[str]:
    """Endings after a noun, each longer than the one before: "in a shirt", "in a shirt riding a
    horse"."""
    pieces: list[str] = []
    last = _last_modifier(tree, head, end)
    if last > end:
        cut = _before_clause(tree, end + 1, last)
        pieces = _pieces(tree, head, "", end + 1, cut)
        if cut < last or not pieces:
            return pieces
    before = "" if last == end else tree.text(end + 1, last) + " "
    clause = _clause(tree, head, last + 1)
    if clause is not None:
        participle_form, first, final = clause
        pieces += _pieces(tree, head, before + participle_form, first, final)
    return pieces


def _pieces(tree: Tree, head: int, opening: str, first: int, last: int) -> list[str]:
    """`opening` and the words from `first` to each place, up to `last`, where a phrase may end."""
    return [
        opening + tree.text(first, end)
        for end in range(first, last + 1)
        if _may_end(tree, head, end, first, last)
    ]


def _last_modifier(tree: Tree, head: int, end: int) -> int:
    """The last word of the modifiers that follow a noun without a gap."""
    last = end
    for child in tree.children[head]:
        left, right = tree.edges(child)
        if left == last + 1 and _modifies(tree, head, child):
            last = right
    return last


def _modifies(tree: Tree, head: int, child: int) -> bool:
    """Whether a modifier really belongs to the noun. Parsers often attach to an object what
    somebody does with it."""
    token = tree.tokens[child]
    if token.dep == "acl":
        return token.tag == "VBN" or (token.tag == "VBG" and not _belongs_to_somebody(tree, head))
    if (
        token.dep == "prep"
    ):  # nobody climbs "a wall with his hands" or runs over "the grass toward the trees"
        elsewhere = _ELSEWHERE.intersection(tree.words(*tree.edges(child)))
        return _animate(tree, head) or not elsewhere
    return token.dep == "advmod" and token.text in ("next", "close")


def _belongs_to_somebody(tree: Tree, index: int) -> bool:
    """Whether somebody does it: in "a woman in a red hat standing" it is not the hat that
    stands."""
    if _animate(tree, index):
        return False
    while tree.tokens[index].head != index:
        index = tree.tokens[index].head
        if tree.tokens[index].tag in NOUNS and _animate(tree, index):
            return True
    return False


def _animate(tree: Tree, index: int) -> bool:
    return not _ANIMATE.isdisjoint(object_names().classes_of(tree.words(index, index)))


def _clause(tree: Tree, head: int, after: int) -> tuple[str, int, int] | None:
    """The verb of the noun, if it comes at `after`, as a participle: "(who) is riding", "rides" ->
    "riding".

    Words in place of the sentence's own, and the first and last place of those that follow.
    """
    verb = tree.tokens[head].head
    if tree.tokens[head].dep not in ("nsubj", "nsubjpass") or verb < after:
        if tree.words(after, after) not in (["that"], ["who"], ["which"]):
            return None
        after += 1
        relative = [
            child
            for child in tree.children[head]
            if tree.tokens[child].dep == "relcl" and child >= after
        ]
        if len(relative) != 1 or tree.tokens[after].text not in _BE:
            return None
        verb = relative[0]
    token = tree.tokens[verb]
    last = _before_clause(tree, verb + 1, tree.edges(verb)[1])
    if verb == after + 1 and tree.tokens[after].text in _BE and token.tag in ("VBG", "VBN"):
        return "", verb, last
    if verb != after:
        return None
    if token.text in _BE:  # "is on a table"
        prepositions = [
            child
            for child in tree.children[verb]
            if child == verb + 1 and tree.tokens[child].dep == "prep"
        ]
        return ("", verb + 1, last) if prepositions else None
    if token.tag in ("VBZ", "VBP") and token.text not in _STATES:
        return participle(token) + " ", verb + 1, last
    return None


def _before_clause(tree: Tree, first: int, last: int) -> int:
    """The last place, from `first` to `last`, before punctuation or a new clause."""
    for index in range(first, last + 1):
        token = tree.tokens[index]
        if token.tag in _CLAUSE_TAGS:
            return index - 1
        if token.dep in _CLAUSE_DEPS or (token.dep == "conj" and token.tag in _FINITE):
            return max(first, tree.edges(index)[0]) - 1
    return last


def _may_end(tree: Tree, head: int, end: int, first: int, last: int) -> bool:
    """Whether a phrase may end at `end`: with a noun, with what somebody does ("a man fishing"), or
    an adverb."""
    token = tree.tokens[end]
    if token.tag in NOUNS:
        return not _noun_goes_on(tree, end)
    if token.tag == "VBG" and end == first:
        return (
            not tree.has_child(end, *_OBJECTS)
            and token.text not in _UNFINISHED
            and _animate(tree, head)
        )
    return end == last and token.text in _ENDING_ADVERBS


def _noun_goes_on(tree: Tree, index: int) -> bool:
    """Whether the phrase is incomplete: "front (of)", "a pink (hat)", "between a tree (and)", "his
    arms (folded)"."""
    token = tree.tokens[index]
    following = tree.tokens[index + 1] if index + 1 < len(tree.tokens) else Token("", "", "", index)
    governor = tree.governor(index).text
    return (
        token.dep in _PARTS_OF_NOUNS
        or token.text == "order"  # "in order to"
        or (
            token.dep == "conj" and tree.governor(index).tag == "VBG"
        )  # "sitting and watches" is no noun
        or following.tag in NOUNS
        or following.text in ("of", "'s", "'", "-")
        or (token.text in _COLOURS and tree.has_child(index, "det"))
        or (governor == "between" and token.tag not in PLURALS)
        or (governor == "with" and following.tag in ("VBN", "JJ", "RB", "RP"))
    )


def participle(verb: Token) -> str:
    """The -ing form of a verb in the present: sits -> sitting, rides -> riding, lies -> lying."""
    stem = _infinitive(verb)
    if stem.endswith("ie"):
        return stem[:-2] + "ying"
    if stem.endswith("e") and not stem.endswith(("ee", "oe", "ye")):
        return stem[:-1] + "ing"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", stem):
        return stem + stem[-1] + "ing"
    return stem + "ing"


def _infinitive(verb: Token) -> str:
    """The infinitive, without the parser's lemma, which is "rid" for "rides"."""
    if verb.tag == "VBP":
        return verb.text
    if verb.text.endswith("ies") and len(verb.text) > 4:
        return verb.text[:-3] + "y"
    return re.sub(r"(?<=ch|sh|ss|zz)es$|(?<=[xo])es$|s$", "", verb.text)
