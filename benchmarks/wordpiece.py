"""Compares our WordPiece tokens with those of the package `tokenizers`, and their speed.

python benchmarks/wordpiece.py FOLDER TEXTS... [--lines 100000]

FOLDER has a model's `vocab.txt` and `tokenizer.json`; TEXTS are files with a text a line, perhaps
gzipped. As many random strings of assigned Unicode characters follow.
"""

from __future__ import annotations

import argparse
import random
import time
import unicodedata
from collections.abc import Sequence
from pathlib import Path

from tokenizers import Tokenizer  # type: ignore[import-not-found]

from regiontalk.io.files import read_lines
from regiontalk.language.wordpiece import WordPieces

LAST_CHARACTER = 0x10FFFF


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("texts", type=Path, nargs="+")
    parser.add_argument("--lines", type=int, default=100_000, help="how many texts are compared")
    options = parser.parse_args()
    reference = Tokenizer.from_file(str(options.folder / "tokenizer.json"))
    reference.no_padding()
    reference.no_truncation()
    pieces = WordPieces.load(options.folder / "vocab.txt")
    distinct = {line.decode() for path in options.texts for _, line in read_lines(path)}
    generator = random.Random(0)
    texts = sorted(distinct)
    some = generator.sample(texts, min(len(texts), options.lines))
    compare("texts", some, pieces, reference)
    strings = random_strings(generator, options.lines)
    compare("random strings", strings, pieces, reference)


def random_strings(generator: random.Random, count: int) -> list[str]:
    """Strings of assigned characters."""
    characters = [
        chr(code)
        for code in range(0x20, LAST_CHARACTER + 1)
        if unicodedata.category(chr(code)) not in ("Cn", "Cs")
    ]
    return [
        "".join(generator.choices(characters, k=generator.randint(1, 12))) for _ in range(count)
    ]


def compare(title: str, texts: Sequence[str], pieces: WordPieces, reference: Tokenizer) -> None:
    began = time.perf_counter()
    ours = [pieces.encode(text) for text in texts]
    middle = time.perf_counter()
    theirs = [encoding.ids for encoding in reference.encode_batch(list(texts))]
    ended = time.perf_counter()
    different = [text for text, a, b in zip(texts, ours, theirs, strict=True) if a != b]
    print(
        f"{len(texts)} {title}: {len(different)} differ; ours {middle - began:.1f} s, "
        f"tokenizers {ended - middle:.1f} s"
    )
    for text in different[:5]:
        print(f"  {text!r}: {pieces.tokens(text)}, tokenizers {reference.encode(text).tokens}")


if __name__ == "__main__":
    main()
