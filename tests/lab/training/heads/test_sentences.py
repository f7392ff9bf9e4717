"""Training the multimodal RNN on made-up codes."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from regiontalk.errors import UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.nets.multimodal_rnn import Seen, packed
from regiontalk.lab.training.checkpoints import Trained, find_checkpoint, load_sentence_net
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.heads.caption_targets import Snippet, write_snippets
from regiontalk.lab.training.heads.evaluation import coded_sentences, score_sentences
from regiontalk.lab.training.heads.sentences import SentencesTask
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.language.vocabulary import END, UNKNOWN

RECIPE = """
kind = "sentences"
[run]
steps = 60
batch = 4
evaluate_every = 30
metric = "cider"
[data]
path = "{folder}/data"
codes = "{folder}/codes.npz"
[vocabulary]
smallest_count = 1
[net]
hidden = 48
embedding = 24
dropout = 0.0
[optimizer]
kind = "adamw"
rate = 1e-2
"""
CODE = 12
SAID = [
    "a red circle",
    "two green rings on a square",
    "a blue ring and a dog",
    "the yellow square",
    "a dog",
    "two dogs",
]


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data set of six photos to learn and the same ones again as dev, their codes, and a
    recipe."""
    folder = tmp_path_factory.mktemp("sentences")
    (folder / "data").mkdir()
    records = []
    for split in ("train", "dev"):
        for number, said in enumerate(SAID):
            record = {"image": f"{split}{number}.jpg", "width": 100, "height": 50, "split": split}
            records.append(record | {"sentences": [f"{said.capitalize()} .", said], "regions": []})
    lines = "".join(json.dumps(record) + "\n" for record in records)
    (folder / "data" / "annotations.jsonl").write_text(lines)
    random = np.random.default_rng(0)
    codes = np.tile(random.normal(size=(6, 20, CODE)), (2, 1, 1)).astype(np.float16)
    boxes = np.tile(np.array([0, 0, 100, 50], dtype=np.float32), (12, 20, 1))
    boxes[:, 1:, 2:] = random.uniform(10, 50, size=(12, 19, 2))
    counts, scores = np.full(12, 20), np.ones((12, 20), dtype=np.float32)
    names = tuple(record["image"] for record in records)
    surroundings = random.normal(size=codes.shape).astype(np.float16)
    CodedPhotos(names, counts, boxes, scores, codes, "the detector", surroundings).save(
        folder / "codes.npz"
    )
    snippets = [
        (name, [Snippet(1, "a dog"), Snippet(3, "red", 0.5)]) for name in names[:1] + names[6:7]
    ]
    write_snippets(folder / "snippets.jsonl", snippets)
    (folder / "recipe.toml").write_text(RECIPE.format(folder=folder))
    return folder


@pytest.fixture(scope="module")
def begin(desk: Path) -> Callable[..., SentencesTask]:
    def make(*changes: str) -> SentencesTask:
        return SentencesTask.begin(load_recipe(desk / "recipe.toml", changes))

    return make


def train(task: SentencesTask, folder: Path) -> Engine:
    engine = Engine(task, folder, torch.device("cpu"), Nobody())
    engine.train()
    return engine


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ('net.cell="lstm"', "net.attention=24", "net.heads=2", "net.views=3"),
        ('net.conditioning="multiplicative"',),
    ],
)
def test_sentences_are_learned_by_heart(
    begin: Callable[..., SentencesTask], tmp_path: Path, changes: Any
) -> None:
    engine = train(begin(*changes), tmp_path)
    task = engine.task
    trained = Trained(task.net, task.words, task.recipe, task.description() | {"step": 0})
    sentences = coded_sentences(trained, task.coded)
    for beam in (1, 3):
        said = [
            task.words.decode(caption.tokens) for caption in sentences(task.targets["train"], beam)
        ]
        assert said == SAID
    assert score_sentences(sentences, task.targets["dev"])["bleu4"] > 0
    assert engine.best


def test_batches_hold_every_text_of_their_targets(begin: Callable[..., SentencesTask]) -> None:
    task = begin()
    batch = task.batches(0, 1)[0]
    assert len(batch.names) == 4
    assert len(batch.fed) == 8
    lengths = batch.lengths.tolist()
    assert lengths == sorted(lengths, reverse=True)
    assert (batch.fed[:, 0] == task.words.start()).all()
    assert torch.equal(batch.fed[:, 1:], batch.words[:, :-1])
    for row, (number, length) in enumerate(zip(batch.owners.tolist(), lengths, strict=True)):
        said = SAID[int(batch.names[number].removeprefix("train").removesuffix(".jpg"))]
        assert task.words.decode(batch.words[row].tolist()) == said
        assert length == len(said.split()) + 1
        assert (batch.words[row, length - 1 :] == END).all()


def test_an_epoch_shows_every_target_once_and_ranks_share_it(
    begin: Callable[..., SentencesTask],
) -> None:
    task = begin("run.batch=2")
    whole = task.batches(0, 1)
    names = [name for step in range(3) for name in whole[step].names]
    assert sorted(names) == [f"train{number}.jpg" for number in range(6)]
    shares = [task.batches(rank, 2)[1].names for rank in (0, 1)]
    assert sorted(shares[0] + shares[1]) == sorted(whole[1].names)


def test_rare_words_are_dropped_and_the_bias_begins_with_frequencies(
    begin: Callable[..., SentencesTask],
) -> None:
    task = begin("vocabulary.smallest_count=4")
    assert "yellow" not in task.words.words
    batch = task.batches(0, 1).collate(task.targets["train"])
    assert (batch.words != UNKNOWN).all()
    frequencies = torch.softmax(task.net.output.bias, dim=0)
    counts = torch.tensor([12, 0, 10, 4, 4, 4])  # END, <UNK>, a, and dog, square, two
    torch.testing.assert_close(frequencies.detach(), (counts + 1) / (counts + 1).sum())


def test_weights_count_in_the_loss(begin: Callable[..., SentencesTask], desk: Path) -> None:
    task = begin(f'data.snippets="{desk / "snippets.jsonl"}"')
    (first, second) = task.targets["train"]
    assert (first.row, second.row) == (1, 3)
    batches = task.batches(0, 1)
    alone = [
        task.losses(batches.collate([target]))["sentence"].item() for target in (first, second)
    ]
    words = [3, 2]  # with END
    expected = (alone[0] * words[0] + 0.5 * alone[1] * words[1]) / (words[0] + 0.5 * words[1])
    assert task.losses(batches.collate([first, second]))["sentence"].item() == pytest.approx(
        expected, rel=1e-5
    )


def test_perplexity_is_the_exponential_of_the_mean_loss(
    begin: Callable[..., SentencesTask], tmp_path: Path
) -> None:
    task = begin("run.batch=12", "label_smoothing=0.2")
    found = task.evaluate(
        task.net.eval(), torch.device("cpu"), tmp_path / "sheet.jpg", pytest.fail
    )["perplexity"]
    batch = task.batches(0, 1).collate(task.targets["dev"])
    with torch.no_grad():
        seen = task.net.look(batch.views, batch.regions, batch.places)
        logits = task.net(Seen(*(part[batch.owners] for part in seen)), batch.fed, batch.lengths)
    likely = torch.log_softmax(logits, dim=1).gather(1, packed(batch.words, batch.lengths)[:, None])
    assert found == pytest.approx(float(torch.exp(-likely.mean())), rel=1e-5)


def test_a_checkpoint_is_read_again(begin: Callable[..., SentencesTask], tmp_path: Path) -> None:
    task = train(begin("run.steps=2", "schedule.ema=0.9"), tmp_path).task
    trained = load_sentence_net(find_checkpoint(tmp_path))
    assert trained.words == task.words
    assert trained.recipe == task.recipe
    assert (trained.state["detector"], trained.state["code"]) == ("the detector", CODE)
    assert not torch.equal(trained.net.output.weight, task.net.output.weight), "the moving average"


def test_a_resumed_run_is_the_run_that_never_stopped(
    begin: Callable[..., SentencesTask], tmp_path: Path
) -> None:
    changes = ("net.dropout=0.5", "run.checkpoint_every=3", "run.evaluate_every=100", "run.steps=6")
    whole = train(begin(*changes), tmp_path / "whole")
    first = Engine(begin(*changes), tmp_path / "parts", torch.device("cpu"), Nobody())
    for step in range(3):
        first.train_step([first.task.batches(0, 1)[step]])
        first.step += 1
    first.save()
    second = Engine(begin(*changes), tmp_path / "parts", torch.device("cpu"), Nobody())
    assert second.resume()
    second.train()
    for name, value in whole.net.state_dict().items():
        assert torch.equal(value, second.net.state_dict()[name]), name


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ('net.cell="gru"', "net.cell: 'gru'; it must be one of rnn, lstm"),
        ("net.views=2", "net.views: 2; it must be one of 1, 3"),
        ("net.attention=5", None),
        ("net.heads=0", "cannot be shared by 0 heads"),
        ("label_smoothing=1.0", "label_smoothing is 1.0"),
        ('run.metric="dense_map"', "run.metric: 'dense_map'; it must be one of cider"),
        ('data.path="nowhere"', "nowhere: no such data set"),
    ],
)
def test_what_cannot_be_is_said(
    begin: Callable[..., SentencesTask], change: str, message: str | None
) -> None:
    if message is None:
        begin(change)
        return
    with pytest.raises(UsageError, match=message):
        begin(change)


def test_a_run_starts_from_another(begin: Callable[..., SentencesTask], tmp_path: Path) -> None:
    """With its weights and words, whatever the words of the data set are now."""
    first = train(begin("run.steps=2", "vocabulary.smallest_count=4"), tmp_path).task
    task = begin(f'init_from="{tmp_path}"')
    assert task.words == first.words
    for name, value in first.net.state_dict().items():
        assert torch.equal(value, task.net.state_dict()[name]), name
    with pytest.raises(UsageError, match=r"its \[net\] differs from this recipe's"):
        begin(f'init_from="{tmp_path}"', "net.hidden=8")


def test_kept_words_stay_as_they_are(begin: Callable[..., SentencesTask], tmp_path: Path) -> None:
    """Only what reads codes learns."""
    changes = ("net.attention=4", "run.steps=2")
    train(begin(*changes), tmp_path / "first")
    task = begin(f'init_from="{tmp_path / "first"}"', "keep_words=true", *changes)
    before = {name: value.clone() for name, value in task.net.state_dict().items()}
    task = train(task, tmp_path / "second").task
    learned = {
        name
        for name, value in task.net.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert learned == {"image.weight", "image.bias", "remember.weight", "remember.bias"}


def test_keeping_words_needs_those_of_a_run(begin: Callable[..., SentencesTask]) -> None:
    with pytest.raises(UsageError, match="keep_words needs init_from"):
        begin("keep_words=true")
