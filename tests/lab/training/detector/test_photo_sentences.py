"""Sentences about whole photos beside the FCLN's phrases."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import numpy as np
import pytest
import torch
from torch import Tensor

from regiontalk.errors import DataError, UsageError
from regiontalk.lab.data.records import Record
from regiontalk.lab.nets.alignment import AlignmentConfig, AlignmentNet
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.training.checkpoints import (
    COMPANION,
    latest_checkpoint,
    load_fcln,
    read_tensors,
)
from regiontalk.lab.training.detector.photo_sentences import (
    SentencePicker,
    Sentences,
    inference_codes,
    sentence_loss,
)
from regiontalk.lab.training.detector.targets import Sample
from regiontalk.lab.training.detector.task import FCLNTask
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.heads.sentence_encoding import WordReader
from regiontalk.lab.training.recipe.detector import PhotoSentencesConfig
from regiontalk.language.vocabulary import Vocabulary

READ = Vocabulary(("a", "cat", "dog", "runs", "sleeps"), cleaning="karpathy")
PICKER = SentencePicker(PhotoSentencesConfig(per_photo=2), WordReader(READ))
CODE, PROPOSALS = 6, 4
SMALL = AlignmentConfig(
    words="gru", score="cosine", size=8, hidden=8, embedding=8, train_embedding=True, dropout=0.0
)
ON = (
    'sentences={net={words="gru",score="cosine",size=8,hidden=8,embedding=8,train_embedding=true},smallest_count=1}',
    "sampler.inference_proposals=6",
)


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, text: str) -> None: ...


def record(*sentences: str) -> Record:
    return Record("x.jpg", 10, 10, "train", (), sentences)


@pytest.fixture
def task(quick_recipe) -> FCLNTask:
    return FCLNTask.begin(quick_recipe(*ON))


def test_so_many_different_sentences_of_a_photo_each_time():
    several = record("a dog", "a cat", "a dog runs")
    seen = {
        tuple(" ".join(words) for words in PICKER.pick(several, np.random.default_rng(n)))
        for n in range(40)
    }
    assert all(len(set(picked)) == 2 for picked in seen)
    assert {text for picked in seen for text in picked} == {"a dog", "a cat", "a dog runs"}


def test_fewer_where_there_are_fewer_and_long_ones_are_cut():
    random = np.random.default_rng(0)
    assert PICKER.pick(record(), random) == []
    assert PICKER.pick(record("!!!"), random) == []
    assert PICKER.pick(record("dog " * 40), random) == [["dog"] * WINDOW_WORDS]


def test_each_sentence_belongs_to_its_photo():
    sentences = PICKER.collate([[["a", "dog"]], [], [["a", "cat"], ["a", "dog", "runs"]]])
    assert sentences is not None
    assert sentences.photos.tolist() == [0, 2]
    assert sentences.owners.tolist() == [0, 1, 1]
    read = [
        READ.decode(row[:length])
        for row, length in zip(
            sentences.texts.tokens.tolist(), sentences.texts.lengths.tolist(), strict=True
        )
    ]
    assert read == ["a dog", "a cat", "a dog runs"]


def test_a_batch_without_sentences():
    assert PICKER.collate([[], []]) is None


def made_up(photos: int) -> tuple[Tensor, Sample, Sentences]:
    """Codes (N, 1 + R, D), of which the last of every photo is filling, and sentences of the first
    and the third."""
    torch.manual_seed(0)
    codes = torch.rand(photos, 1 + PROPOSALS, CODE, requires_grad=True)
    index = torch.zeros(photos, PROPOSALS, dtype=torch.long)
    used = torch.arange(PROPOSALS).expand(photos, PROPOSALS) < PROPOSALS - 1
    proposals = Sample(index, torch.zeros(photos, PROPOSALS, 4), used, used, index)
    sentences = PICKER.collate([[["a", "dog"]], [], [["cat", "sleeps"], ["runs"]]])
    assert sentences is not None
    return codes, proposals, sentences


def test_gradients_reach_the_codes_of_photos_with_sentences():
    codes, proposals, sentences = made_up(3)
    sentence_loss(AlignmentNet(SMALL, CODE, len(READ)), codes, proposals, sentences).backward()
    moved = codes.grad.abs().sum(dim=2) > 0
    assert moved.any(dim=1).tolist() == [True, False, True]
    assert not moved[:, -1].any()  # filling


def test_matching_can_be_learned():
    codes, proposals, sentences = made_up(3)
    net = AlignmentNet(SMALL, CODE, len(READ))
    optimizer = torch.optim.Adam(net.parameters(), 0.02)
    losses = []
    for _ in range(60):
        loss = sentence_loss(net, codes, proposals, sentences)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.1 * losses[0]


def test_codes_are_those_that_heads_get(task):
    """Whole photo first, then the best proposals, each with its appearance appended to its code."""
    batch = task.batches(0, 1)[0]
    task.net.eval()
    features, deep = task.net.backbone(batch.images.float(), batch.sizes)
    regions = task._choose(task.net.localization(features), batch)
    recognized = task.net.recognize(features, batch.sizes, regions.boxes_xyxy)
    codes = inference_codes(task.net, deep, recognized, regions.at_inference, batch.sizes)
    size = task.recipe.net.recognition.code
    first = regions.boxes_xyxy.shape[1] - regions.at_inference.index.shape[1]
    torch.testing.assert_close(codes[:, 0, :size], recognized.photo_codes)
    torch.testing.assert_close(codes[:, 1, :size], recognized.codes[:, first])
    width, height = batch.sizes[0].tolist()
    whole = task.net.pooled_features(deep[:1], torch.tensor([[[0, 0, width, height]]]))
    torch.testing.assert_close(codes[0, 0, size:], whole[0])


def test_the_task_has_a_sixth_loss_that_moves_the_backbone_but_no_code(task):
    losses = task.losses(task.batches(0, 1)[0])
    assert len(losses) == 6
    losses["contrastive"].backward()
    assert next(task.net.backbone.parameters()).grad.abs().sum() > 0
    assert all(parameter.grad is None for parameter in task.net.recognition.parameters())


def test_a_batch_without_sentences_gives_all_gradients_all_the_same(task):
    batch = replace(task.batches(0, 1)[0], sentences=None)
    losses = task.losses(batch)
    assert losses["contrastive"] == 0
    sum(losses.values()).backward()
    assert all(
        parameter.grad is not None for parameter in task.net.get_submodule(COMPANION).parameters()
    )


def test_sentences_that_say_left_keep_a_photo_from_being_mirrored(quick_recipe, monkeypatch):
    task = FCLNTask.begin(quick_recipe(*ON, "augmentation.flip=1.0"))
    monkeypatch.setattr(SentencePicker, "pick", lambda *_: [["left"]])
    told = task.batches(0, 1)[0].images
    monkeypatch.setattr(SentencePicker, "pick", lambda *_: [["a"]])
    mirrored = task.batches(0, 1)[0].images
    assert not torch.equal(told, mirrored)


def test_a_checkpoint_is_read_without_the_net_that_only_training_needs(task, tmp_path):
    Engine(task, tmp_path / "run", torch.device("cpu"), Nobody()).train()
    checkpoint = latest_checkpoint(tmp_path / "run" / "checkpoints")
    assert checkpoint is not None
    assert any(name.startswith(COMPANION) for name in read_tensors(checkpoint, "model"))
    trained = load_fcln(checkpoint)
    assert not hasattr(trained.net, COMPANION)
    assert trained.words == task.words


def test_known_words_start_from_word_vectors(tmp_path):
    vectors = np.arange(6, dtype=np.float32).reshape(2, 3) + 1
    np.savez(tmp_path / "v.npz", words=np.array(["cat", "runs"]), vectors=vectors)
    config = PhotoSentencesConfig(word_vectors=str(tmp_path / "v.npz"), net=SMALL)
    table = (
        SentencePicker(config, WordReader(READ)).build_net(CODE).get_parameter("words.table.weight")
    )
    cat, runs, dog = READ.encode(["cat", "runs", "dog"])
    assert table[[cat, runs]].tolist() == vectors.tolist()
    assert table[dog].abs().sum() > 0


def test_data_without_sentences(quick_recipe, scenes, tmp_path):
    shutil.copytree(scenes, tmp_path / "silent")
    annotations = tmp_path / "silent" / "annotations.jsonl"
    lines = [json.loads(line) | {"sentences": []} for line in annotations.read_text().splitlines()]
    annotations.write_text("".join(json.dumps(line) + "\n" for line in lines))
    with pytest.raises(DataError, match="no training photo has a sentence"):
        FCLNTask.begin(quick_recipe(*ON, f"data=[{{path='{tmp_path / 'silent'}'}}]"))


def test_sentences_need_the_proposals_at_inference(quick_recipe):
    with pytest.raises(UsageError, match=r"needs sampler\.inference_proposals"):
        quick_recipe(ON[0])
