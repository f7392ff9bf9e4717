from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regiontalk.evaluation.meteor.stem import stem

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
    assert stem(word) == expected


@given(st.text("aeiouybcdglnrstwx'", max_size=12))
def test_a_stem_is_short_lower_case_and_never_fails(word: str) -> None:
    found = stem(word)
    assert len(found) <= len(word) + 1
    assert found == found.lower()
