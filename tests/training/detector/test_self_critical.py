"""Rewards by hand and against METEOR; the language model learns to say what is rewarded."""

from __future__ import annotations

import pytest
import torch

from regiontalk.evaluation.meteor import Meteor
from regiontalk.nets.language import LanguageConfig, LanguageModel
from regiontalk.training.detector.self_critical import draw_captions, log_probability, meteor, reward_loss
from regiontalk.training.detector.targets import Truths
from regiontalk.training.recipe.detector import RewardConfig
from regiontalk.vocabulary import END, UNKNOWN, Vocabulary

WORDS = Vocabulary(("a", "the", "dog", "cat", "red", "sofa", "on", "zebra"), styles=("phrase", "other"), lengths=2)
LONGEST = 6


def encode(*texts: str) -> torch.Tensor:
    rows = [WORDS.encode(text.split()) for text in texts]
    return torch.tensor([row + [END] * (LONGEST - len(row)) for row in rows])


def score(caption: str, phrase: str, recall: float = 0.85) -> float:
    is_content = torch.zeros(len(WORDS))
    is_content[list(WORDS.content_tokens)] = 1.0
    return float(meteor(encode(caption)[None], encode(phrase)[None], is_content, recall))


@pytest.mark.parametrize(
    ("caption", "phrase"),
    [
        ("a red dog", "a red dog"),
        ("a dog", "a red dog"),
        ("a red dog on the sofa", "a dog"),
        ("the dog on a sofa", "a sofa on the dog"),
        ("a zebra", "the cat"),
        ("dog dog dog", "a dog"),
    ],
)
def test_words_that_are_the_same_score_as_in_meteor(caption: str, phrase: str) -> None:
    assert score(caption, phrase) == pytest.approx(Meteor.load().score(caption, [phrase]), abs=1e-6)


def test_less_recall_makes_surer_captions_worth_more() -> None:
    long, short = "a red dog on the sofa", "a dog"
    assert score(long, "the red dog") > score(short, "the red dog")
    assert score(long, "the red dog", 0.1) < score(short, "the red dog", 0.1)


def test_an_empty_caption_is_worth_nothing() -> None:
    assert score("", "a dog") == 0


def make_language() -> LanguageModel:
    torch.manual_seed(0)
    return LanguageModel(4, len(WORDS), WORDS.starts, LanguageConfig(embedding=12, hidden=16, feed="always"))


def test_drawn_captions_end_with_end_and_know_no_unknown_word() -> None:
    seen = torch.zeros(500, 12)
    drawn = draw_captions(make_language(), seen, torch.full((500,), WORDS.start()), LONGEST)
    after_end = (drawn == END).cumsum(dim=1) > 0
    assert drawn.shape == (500, LONGEST)
    assert after_end.any()
    assert (drawn[after_end] == END).all()
    assert not (drawn == UNKNOWN).any()


def test_a_captions_probability_is_that_of_its_words_and_its_end() -> None:
    language, seen, start = make_language(), torch.rand(1, 12), torch.tensor([WORDS.start()])
    caption, expected = encode("a dog"), 0.0
    h, c = language.begin(seen)
    token = start
    for word in caption[0, :3]:
        found, h, c = language.step(token, h, c, seen)
        expected += float(found[0, word].detach())
        token = word[None]
    found = log_probability(language, seen, start, caption).detach()
    assert float(found) == pytest.approx(expected, abs=1e-5)


def make_truths(*plain: bool) -> Truths:
    """Two phrases on one box, and one far away."""
    near, far = [0.0, 0.0, 40.0, 40.0], [60.0, 60.0, 90.0, 90.0]
    return Truths(
        torch.tensor([[near, near, far]]),
        torch.ones(1, 3, dtype=torch.bool),
        encode("a cat", "a red dog", "the zebra")[None],
        torch.full((1, 3), WORDS.start()),
        torch.ones(1, 3),
        torch.tensor([plain]),
    )


def learn(truths: Truths, number: int, steps: int = 150) -> str:
    """What is said most of all of a region after some steps of reward alone."""
    language = make_language()
    optimizer = torch.optim.Adam(language.parameters(), 2e-2)
    seen, photos, numbers = torch.ones(1, 12), torch.tensor([0]), torch.tensor([number])
    for _ in range(steps):
        loss = reward_loss(language, seen, truths, photos, numbers, WORDS, RewardConfig(samples=24), LONGEST)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    h, c = language.begin(seen)
    token, said = torch.tensor([WORDS.start()]), []
    for _ in range(LONGEST):
        found, h, c = language.step(token, h, c, seen)
        token = found.argmax(dim=1)
        said.append(int(token))
    return WORDS.decode(said)


def test_what_is_rewarded_is_said() -> None:
    assert "cat" in learn(make_truths(True, False, True), 0)
    assert "zebra" in learn(make_truths(True, False, True), 2)


def test_phrases_on_the_same_box_are_rewarded_too() -> None:
    assert "dog" in learn(make_truths(True, True, True), 0)  # which has more words to match than the region's own


def test_regions_with_phrases_in_another_style_are_left_out() -> None:
    language, truths = make_language(), make_truths(False, False, False)
    seen, zero = torch.ones(1, 12, requires_grad=True), torch.tensor([0])
    loss = reward_loss(language, seen, truths, zero, zero, WORDS, RewardConfig(), LONGEST)
    loss.backward()
    assert float(loss.detach()) == 0
    assert not any(parameter.grad is not None for parameter in language.parameters())
