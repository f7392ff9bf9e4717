"""Noun phrases of several lengths from a parsed sentence: "a cat", "a white cat", "a white cat eating from a bowl"."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from regiontalk.data.object_names import ANIMALS, object_names

MOST_WORDS = 12
MOST_LONG = 3  # phrases with what follows the noun, of one noun
NOUNS = {"NN", "NNS", "NNP", "NNPS"}
PLURALS = {"NNS", "NNPS"}
ANIMATE = ANIMALS | {"person"}

_PARTS_OF_NOUNS = {"compound", "poss", "nmod", "npadvmod", "amod", "det"}  # a noun in this place heads no phrase
_BEFORE = {"det", "amod", "compound", "nummod", "nmod", "poss", "quantmod"}
_DETERMINERS = {"a", "an", "the", "some", "several", "many"}
_NUMBERS = {"one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"}
_NOT_THINGS = {"picture", "photo", "photograph", "image", "view", "shot", "close", "closeup", "up", "scene"}
# Without what they are part of, these say nothing.
_EMPTY = {"side", "top", "middle", "back", "front", "end", "edge", "bottom", "group", "couple", "bunch", "pair", "set"}
_EMPTY |= {"row", "piece", "lot", "kind", "type", "number", "part", "variety", "body", "pile", "stack", "chunk", "area", "corner"}
_BE = {"is", "are", "'s", "was", "were"}
_STATES = {"be", "have", "do", "can", "will", "seem", "appear", "want", "need", "like", "love", "contain", "show"}
_NO_END = {"being", "having", "getting", "going", "trying", "preparing", "attempting", "making", "taking", "using", "saying"}
_COLOURS = {"black", "white", "red", "blue", "green", "yellow", "orange", "pink", "purple", "brown", "gray", "grey"}
_OBJECTS = {"dobj", "attr", "prt", "xcomp", "ccomp", "oprd", "acomp", "dative"}
_CUT_TAGS = {"WDT", "WP", "WRB", ",", ".", ":", "``", "''", "-LRB-", "-RRB-", "HYPH"}
_CUT_DEPS = {"mark", "advcl", "ccomp", "relcl", "parataxis", "neg", "nsubj", "nsubjpass", "expl"}
_ADVERBS = {"outside", "outdoors", "inside", "indoors", "together", "around", "up", "down", "away", "alone", "nearby"}
_CLEAN = re.compile(r"[a-z]+(?:(?: |-| '|')[a-z]+)*")
_SPOKEN_CONSONANT = re.compile(r"(?:uni(?!n)|use|usu|ute|uku|euro|one\b|once\b)")


@dataclass(frozen=True)
class Token:
    """A word of a parse: `tag` is Penn Treebank's, `dep` the arc's label, `head` the governor's place.

    A root is its own head. `space`: a space follows the word.
    """

    text: str
    lemma: str
    tag: str
    dep: str
    head: int
    space: bool = True


@dataclass(frozen=True)
class NounPhrase:
    """A noun with what belongs to it. `short` is without adjectives, `full` with them; `long` go on after the noun.

    The noun stands at `head`, the phrase `full` begins at `start`.
    """

    start: int
    head: int
    plural: bool
    short: str | None
    full: str | None
    long: tuple[str, ...]

    @property
    def texts(self) -> tuple[str, ...]:
        """All phrases, shortest first, each once."""
        texts = (self.short, self.full, *self.long)
        return tuple(dict.fromkeys(text for text in texts if text is not None))


def noun_phrases(tokens: Sequence[Token]) -> Iterator[NounPhrase]:
    """The phrases of every noun of a sentence that heads one; without texts where they would not do ("his dog")."""
    tree = Tree(tokens)
    for number, token in enumerate(tokens):
        if token.tag in NOUNS and token.dep not in _PARTS_OF_NOUNS and token.lemma not in _NOT_THINGS:
            start = tree.start_of(number)
            if start is None or tree.denied(number):
                yield NounPhrase(number, number, token.tag in PLURALS, None, None, ())
            else:
                yield phrase_at(tree, start, number)


def phrase_at(tree: Tree, start: int, head: int, end: int | None = None) -> NounPhrase:
    """The phrase of the noun at `head`, whose words before it begin at `start`.

    `end`: the last word of the full phrase, if that is not the noun.
    """
    end = head if end is None else end
    full = tree.text(start, end)
    return NounPhrase(
        start,
        head,
        tree.tokens[head].tag in PLURALS,
        _tidy(tree.short(start, head)),
        _tidy(full),
        tuple(_longer(full, tree.endings(head, end))),
    )


class Tree:
    """A sentence's dependency tree."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.children: list[list[int]] = [[] for _ in tokens]
        for number, token in enumerate(tokens):
            if token.head != number:
                self.children[token.head].append(number)

    def edges(self, number: int) -> tuple[int, int]:
        """The first and the last word of the subtree below a word."""
        left = right = number
        for child in self.children[number]:
            low, high = self.edges(child)
            left, right = min(left, low), max(right, high)
        return left, right

    def start_of(self, head: int) -> int | None:
        """Where the words before a noun begin; None if it is not a phrase to use alone ("his dog", "this one")."""
        start = head
        for child in reversed([child for child in self.children[head] if child < head]):
            token = self.tokens[child]
            left, right = self.edges(child)
            if right + 1 != start or token.dep not in _BEFORE:
                break
            if token.dep == "det" and token.text not in _DETERMINERS:
                return None
            if token.tag == "PRP$" or (token.tag == "CD" and token.text not in _NUMBERS):
                return None
            start = left
        return start

    def phrase_of_span(self, start: int, end: int) -> NounPhrase | None:
        """The phrase whose full form are the words from `start` to `end`; None if no noun heads them."""
        heads = [place for place in range(start, end + 1) if not start <= self.tokens[place].head <= end]
        heads += [place for place in range(start, end + 1) if self.tokens[place].head == place]
        if len(heads) != 1 or self.tokens[heads[0]].tag not in NOUNS or self.denied(heads[0]):
            return None
        first = self.start_of(heads[0])
        return None if first != start else phrase_at(self, start, heads[0], end)

    def denied(self, head: int) -> bool:
        return self.tokens[self.tokens[head].head].text == "without"

    def words(self, start: int, end: int) -> list[str]:
        return [token.text for token in self.tokens[start : end + 1]]

    def text(self, start: int, end: int) -> str:
        words = (token.text + (" " if token.space else "") for token in self.tokens[start : end + 1])
        return "".join(words).strip()

    def short(self, start: int, head: int) -> str | None:
        """Determiner or number, compound and noun alone."""
        if self.tokens[head].lemma in _EMPTY:
            return None
        before = [child for child in self.children[head] if start <= child < head]
        if any(self.tokens[child].dep == "poss" for child in before):
            return None
        first = head
        for child in reversed(before):
            left, right = self.edges(child)
            if self.tokens[child].dep != "compound" or right + 1 != first:
                break
            first = left
        if object_names().classes_of(self.words(start, head)) != object_names().classes_of(self.words(first, head)):
            return None  # a hot dog is no dog
        name = self.text(first, head)
        opening = [self.tokens[child] for child in before if self.tokens[child].dep in ("det", "nummod")]
        return " ".join([*(_article(token.text, name) for token in opening), name])

    def endings(self, head: int, end: int) -> list[str]:
        """What may follow a noun, each a longer piece of the same words: "in a shirt", "in a shirt on a bench"."""
        pieces: list[str] = []
        last = self._last_modifier(head, end)
        if last > end:
            cut = self._cut(end + 1, last)
            pieces = self._pieces(head, "", end + 1, cut)
            if cut < last or not pieces:
                return pieces
        before = "" if last == end else self.text(end + 1, last) + " "
        for opening, first, final in self._verb(head, last + 1):
            pieces += self._pieces(head, before + opening, first, final)
        return pieces

    def _pieces(self, head: int, opening: str, first: int, last: int) -> list[str]:
        ends = [place for place in range(first, last + 1) if self._may_end(head, place, first, last)]
        return [opening + self.text(first, place) for place in ends]

    def _last_modifier(self, head: int, end: int) -> int:
        """The last word of what modifies a noun and follows it without a gap."""
        last = end
        for child in self.children[head]:
            left, right = self.edges(child)
            if left == last + 1 and self._modifies(head, child):
                last = right
        return last

    def _modifies(self, head: int, child: int) -> bool:
        token = self.tokens[child]
        if token.dep == "acl":
            return token.tag == "VBN" or (token.tag == "VBG" and not self._worn(head))
        if token.dep == "prep":
            return self.animate(head) or not self._somebodys(child)  # nobody climbs "a wall with his hands"
        return token.dep == "advmod" and token.text in ("next", "close")

    def _somebodys(self, number: int) -> bool:
        left, right = self.edges(number)
        return any(word in ("his", "her", "their") for word in self.words(left, right))

    def _worn(self, number: int) -> bool:
        """Whether a thing belongs to somebody: it is she who stands in "a woman in a red hat standing"."""
        if self.animate(number):
            return False
        while self.tokens[number].head != number:
            number = self.tokens[number].head
            if self.tokens[number].tag in NOUNS and self.animate(number):
                return True
        return False

    def animate(self, number: int) -> bool:
        return bool(ANIMATE.intersection(object_names().classes_of([self.tokens[number].text])))

    def _verb(self, head: int, after: int) -> Iterator[tuple[str, int, int]]:
        """The verb after a noun as a participle: "(who) is riding", "rides" -> "riding". Its words, first and last."""
        following = [token.text for token in self.tokens[after : after + 2]]
        verb = self.tokens[head].head
        if self.tokens[head].dep not in ("nsubj", "nsubjpass") or verb < after:
            if following[:1] not in (["that"], ["who"], ["which"]) or following[1:] and following[1] not in _BE:
                return
            relative = [child for child in self.children[head] if self.tokens[child].dep == "relcl"]
            if len(relative) != 1 or relative[0] < after + 1:
                return
            verb, after = relative[0], after + 1
        token = self.tokens[verb]
        last = self._cut(verb + 1, self.edges(verb)[1])
        if verb == after + 1 and self.tokens[after].text in _BE and token.tag in ("VBG", "VBN"):
            yield "", verb, last
        elif verb == after and token.text in _BE and verb + 1 < len(self.tokens):
            complement = self.tokens[verb + 1]
            if complement.dep == "prep" and complement.head == verb:
                yield "", verb + 1, last
        elif verb == after and token.tag in ("VBZ", "VBP") and token.lemma not in _STATES:
            yield participle(_infinitive(token)) + " ", verb + 1, last

    def _cut(self, first: int, last: int) -> int:
        """The last place before a clause of its own or a sign."""
        for place in range(first, last + 1):
            token = self.tokens[place]
            if token.tag in _CUT_TAGS:
                return place - 1
            if token.dep in _CUT_DEPS or (token.dep == "conj" and token.tag in ("VBZ", "VBP", "VBD")):
                return max(first, self.edges(place)[0]) - 1
        return last

    def _may_end(self, head: int, place: int, first: int, last: int) -> bool:
        token = self.tokens[place]
        following = self.tokens[place + 1] if place + 1 < len(self.tokens) else Token("", "", "", "", place)
        if token.tag in NOUNS:
            joined = token.dep in _PARTS_OF_NOUNS or following.text in ("of", "'s", "'", "-")
            governor = self.tokens[token.head].text
            paired = governor == "between" and token.tag not in PLURALS
            unfinished = governor == "with" and following.tag in ("VBN", "JJ", "RB", "RP")  # "with his arms folded"
            colour = token.text in _COLOURS and any(self.tokens[child].dep == "det" for child in self.children[place])
            return not (joined or paired or unfinished or colour or following.tag in NOUNS or token.text == "order")
        if token.tag == "VBG" and place == first:
            alone = not any(self.tokens[child].dep in _OBJECTS for child in self.children[place])
            return alone and token.text not in _NO_END and self.animate(head)
        return place == last and token.text in _ADVERBS


def participle(verb: str) -> str:
    """The -ing form of a verb: sit -> sitting, ride -> riding, lie -> lying."""
    if verb.endswith("ie"):
        return verb[:-2] + "ying"
    if verb.endswith("e") and not verb.endswith(("ee", "oe", "ye")):
        return verb[:-1] + "ing"
    if re.fullmatch(r"[^aeiou]*[aeiou][^aeiouwxy]", verb):
        return verb + verb[-1] + "ing"
    return verb + "ing"


def _infinitive(verb: Token) -> str:
    """From "rides" or "ride", without the parser's lemma, which is "rid"."""
    if verb.tag == "VBP":
        return verb.text
    if verb.text.endswith("ies") and len(verb.text) > 4:
        return verb.text[:-3] + "y"
    return re.sub(r"(?<=ch|sh|ss|zz)es$|(?<=[xo])es$|s$", "", verb.text)


def with_article(phrase: str) -> str:
    """The phrase with "a" or "an" before it."""
    return f"{_article('a', phrase)} {phrase}"


def _article(determiner: str, following: str) -> str:
    if determiner not in ("a", "an"):
        return determiner
    vowel = following[:1] in "aeiou" and not _SPOKEN_CONSONANT.match(following)
    return "an" if vowel or following.startswith("hour") else "a"


def _longer(full: str, endings: Sequence[str]) -> Iterator[str]:
    texts = [text for text in (_tidy(f"{full} {ending}") for ending in endings) if text is not None]
    yield from texts if len(texts) <= MOST_LONG else [texts[0], texts[len(texts) // 2], texts[-1]]


def _tidy(text: str | None) -> str | None:
    """The phrase, None if it has signs, numbers or too many words."""
    if text is None or len(text.split()) > MOST_WORDS or not _CLEAN.fullmatch(text):
        return None
    return text
