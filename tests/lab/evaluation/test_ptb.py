"""The words are those that coco-caption's Java tokeniser gives (stored here; checked with Java
where it is)."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
from pathlib import Path

import pytest

from regiontalk.lab.evaluation.ptb import tokenize

# Right: the output of Stanford's PTBTokenizer 3.4.1 with -lowerCase, less coco-caption's
# punctuation.
STORED = {
    "A man (in red) says \"hello there\" to 'em.": "a man -lrb- in red -rrb- says hello there to 'em",
    "It's a dog's life; don't can't won't": "it 's a dog 's life do n't ca n't wo n't",
    "I'm I'll they've he'd o'clock ain't": "i 'm i 'll they 've he 'd o'clock ai n't",
    "cannot gonna gotta wanna lemme gimme": "can not gon na got ta wan na lem me gim me",
    "A t-shirt, a 12:30 clock, 3.5 metres, 1,000 people": "a t-shirt a 12:30 clock 3.5 metres 1,000 people",
    "$5.00 100% 50p 1/2 black/white and/or": "$ 5.00 100 % 50p 1/2 black/white and/or",
    "Mr. Smith and Dr. Jones at St. Mary vs. U.S. team": "mr. smith and dr. jones at st. mary vs. u.s. team",
    "He said...wait ... hmm -- yes --- no – dash — em": "he said wait hmm yes no dash em",
    "me at a.b@c.com or http://www.x.com/y?z=1 www.foo.org": (
        "me at a.b@c.com or http://www.x.com/y?z=1 www.foo.org"
    ),
    "\"A man\" 'A woman' `x' dogs' boys'": "a man a woman x dogs boys",
    "café naïve jalapeño": "café naïve jalapeño",
    "rock 'n' roll 1st 2nd 50's 1950s '50s": "rock 'n' roll 1st 2nd 50 's 1950s '50s",
    "A red,white and blue flag; a man,a dog": "a red white and blue flag a man a dog",
    "6'2\" 5\" 3'": "6 2 5 3",
    "& * + = AT&T R&B at&t": "& * + = at&t r&b at & t",
    "it’s “quoted” ‘single’ £5 €5": "it 's quoted single # 5 $ 5",
    "a sign that says <unk> . 4:06pm at no. 1": "a sign that says <unk> 4:06 pm at no. 1",
    "semi-circle x-ray -5 +5 #hashtag @user": "semi-circle x-ray -5 +5 #hashtag @user",
    "A man.A woman in it.,": "a man.a woman in it.",
    "George W. Bush and the letter \"B.\" here": "george w. bush and the letter b. here",
    "": "",
    " . , ! ": "",
}  # fmt: skip


@pytest.mark.parametrize(("sentence", "words"), STORED.items())
def test_stored_words(sentence: str, words: str) -> None:
    assert " ".join(tokenize(sentence)) == words


def jar() -> Path | None:
    found = importlib.util.find_spec("pycocoevalcap")
    if found is None or not found.submodule_search_locations or shutil.which("java") is None:
        return None
    path = Path(found.submodule_search_locations[0]) / "tokenizer" / "stanford-corenlp-3.4.1.jar"
    return path if path.is_file() else None


@pytest.mark.skipif(jar() is None, reason="needs Java and pycocoevalcap's tokeniser")
def test_java_gives_the_stored_words(tmp_path: Path) -> None:
    sentences = [sentence for sentence in STORED if sentence.strip()]
    source = tmp_path / "sentences.txt"
    source.write_text("\n".join(sentences) + "\n", encoding="utf-8")
    java = [
        "java",
        "-Dfile.encoding=UTF-8",
        "-cp",
        str(jar()),
        "edu.stanford.nlp.process.PTBTokenizer",
    ]
    done = subprocess.run(
        [*java, "-preserveLines", "-lowerCase", str(source)],
        capture_output=True,
        check=True,
        timeout=120,
    )
    dropped = {"''", "'", "``", "`", ".", "?", "!", ",", ":", "-", "--", "...", ";"}
    lines = done.stdout.decode("utf-8").splitlines()
    for sentence, line in zip(sentences, lines, strict=True):
        assert " ".join(word for word in line.split() if word not in dropped) == STORED[sentence]
