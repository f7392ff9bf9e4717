"""Training an alignment net: what a batch holds, that it learns by heart, and that it resumes
exactly."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import get_args, get_type_hints

import numpy as np
import pytest
import torch
from safetensors.torch import save_file

from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.nets.text_tower import TextTowerConfig
from regiontalk.lab.training.checkpoints import latest_checkpoint, load_alignment, read_tensors
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.heads.alignment import AlignmentTask
from regiontalk.lab.training.heads.sentence_encoding import trained_reader
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.lab.training.recipe.heads import AlignmentRunConfig
from regiontalk.language.vocabulary import UNKNOWN
from small_bert import bert_weights

CPU = torch.device("cpu")
WEIGHT_FILES = {"text_weights": "model.safetensors", "pieces": "vocab.txt"}


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


def begin(recipe: Path, *changes: str) -> AlignmentTask:
    return AlignmentTask.begin(load_recipe(recipe, changes))


@pytest.fixture
def edges(tmp_path: Path, untrained_run: Path, monkeypatch: pytest.MonkeyPatch) -> tuple[str, ...]:
    """Changes of the recipe for edges, with every word but the first hanging on the first."""
    from regiontalk.lab.training.heads import sentence_encoding

    def parse(sentences: list[str], words: object) -> list[sentence_encoding.Edges]:
        split = [sentence.lower().split() for sentence in sentences]
        return [[("dep", words[0], word) for word in words[1:]] for words in split]

    monkeypatch.setattr(sentence_encoding, "_parse", parse)
    return ("net.words=edges", f"parses={tmp_path / 'parses.json.gz'}")


def test_a_batch_pairs_photos_with_their_own_sentences(alignment_recipe: Path) -> None:
    task = begin(alignment_recipe, "run.batch=3")
    batch = task.batches(0, 1)[0]
    assert batch.codes.shape[:2] == (3, 20)
    assert len(set(batch.names)) == 3
    records = {record.image: record for record in Dataset(task.recipe.data[0].path)}
    for row, name in enumerate(batch.names):
        own = [task.reader.read(sentence).tolist() for sentence in records[name].sentences]
        assert batch.texts.tokens[row, : batch.texts.lengths[row]].tolist() in own
        place = task.coded[0].places[name]
        assert np.array_equal(batch.codes[row].numpy(), task.coded[0].codes[place])


def test_an_epoch_shows_every_photo_once(alignment_recipe: Path) -> None:
    task = begin(alignment_recipe, "run.batch=2")
    batches = task.batches(0, 1)
    names = [name for step in range(3) for name in batches[step].names]
    assert sorted(names) == sorted(
        record.image for record in Dataset(task.recipe.data[0].path, "train")
    )
    assert batches[0].names == batches[0].names
    shared = [task.batches(rank, 2)[0].names for rank in range(2)]
    assert sorted(shared[0] + shared[1]) == sorted(batches[0].names)


@pytest.mark.parametrize(
    "changes",
    [
        (),
        ("net.score=cosine", "losses.kind=contrastive", "net.words=gru"),
        ("net.score=cosine", "losses.kind=contrastive", "net.words=transformer"),
        ("net.score=cosine", "losses.kind=contrastive", "net.words=bert", "optimizer.rate=1e-3"),
        ("losses.hardest_from=20",),
    ],
)
def test_it_learns_by_heart(
    changes: tuple[str, ...], alignment_recipe: Path, tmp_path: Path
) -> None:
    task = begin(alignment_recipe, "run.steps=60", "run.evaluate_every=100", *changes)
    engine = Engine(task, tmp_path / "run", CPU, Nobody())
    first = task.losses(task.batches(0, 1)[0])["ranking"].item()
    engine.train()
    last = task.losses(task.batches(0, 1)[0])["ranking"].item()
    assert last < 0.5 * first


def test_fragments_learn_too(
    alignment_recipe: Path, tmp_path: Path, edges: tuple[str, ...]
) -> None:
    task = begin(
        alignment_recipe,
        *edges,
        "net.score=fragments",
        "losses.instance=1.0",
        "run.evaluate_every=100",
    )
    assert set(task.losses(task.batches(0, 1)[0])) == {"ranking", "instance"}
    assert (task.weight("ranking"), task.weight("instance")) == (1.0, 1.0)
    first = sum(loss.item() for loss in task.losses(task.batches(0, 1)[0]).values())
    engine = Engine(task, tmp_path / "run", CPU, Nobody())
    engine.train()
    assert sum(loss.item() for loss in task.losses(task.batches(0, 1)[0]).values()) < first
    trained = load_alignment(latest_checkpoint(engine.checkpoint_folder))
    assert trained.net.config.words == "edges"
    assert trained.words == task.words
    assert len(trained_reader(trained, ["a blue square"]).read("a blue square")) == 2


def test_stopped_and_resumed_is_as_if_never_stopped(alignment_recipe: Path, tmp_path: Path) -> None:
    changes = ("run.steps=6", "net.dropout=0.5", "schedule.ema=0.9", "run.evaluate_every=100")
    whole = Engine(begin(alignment_recipe, *changes), tmp_path / "whole", CPU, Nobody())
    whole.train()
    Engine(begin(alignment_recipe, *changes), tmp_path / "part", CPU, Nobody()).train(seconds=0)
    part = Engine(begin(alignment_recipe, *changes), tmp_path / "part", CPU, Nobody())
    assert part.resume()
    part.train()
    for name in ("model", "ema", "optimizer"):
        a, b = (
            read_tensors(latest_checkpoint(engine.checkpoint_folder), name)
            for engine in (whole, part)
        )
        assert all(torch.equal(a[key], b[key]) for key in a)


def test_codes_of_another_detector_do_not_resume(alignment_recipe: Path, tmp_path: Path) -> None:
    Engine(begin(alignment_recipe), tmp_path / "run", CPU, Nobody()).train(seconds=0)
    task = begin(alignment_recipe)
    task.coded[0] = replace(task.coded[0], detector="another")
    with pytest.raises(UsageError, match="another detector"):
        Engine(task, tmp_path / "run", CPU, Nobody()).resume()


def test_the_best_are_kept_and_what_is_reported_can_be_chosen_by(alignment_run: Path) -> None:
    entries = [json.loads(line) for line in (alignment_run / "log.jsonl").read_text().splitlines()]
    reported = [entry["dev"] for entry in entries if "dev" in entry]
    known = get_args(get_type_hints(AlignmentRunConfig)["metric"])
    assert all(tuple(metrics) == known for metrics in reported)
    assert len(list((alignment_run / "checkpoints").iterdir())) == 2


def test_word_vectors_from_a_file(alignment_recipe: Path, tmp_path: Path) -> None:
    path = tmp_path / "vectors.npz"
    np.savez(
        path,
        words=np.array(["red", "zebra"]),
        vectors=np.array([[1, 2, 3], [4, 5, 6]], dtype=np.float32),
    )
    frozen = begin(alignment_recipe, f"word_vectors.path={path}", "net.train_embedding=false")
    table = frozen.net.get_parameter("words.table.weight")
    assert table.shape[1] == 3
    assert table[frozen.words.encode(["red"])[0]].tolist() == [1, 2, 3]
    assert table[frozen.words.encode(["a"])[0]].tolist() == [0, 0, 0]
    assert "zebra" not in frozen.words.words
    assert not table.requires_grad
    assert frozen.recipe.net.embedding == 3, "as a checkpoint must say"
    learned = begin(alignment_recipe, f"word_vectors.path={path}", "word_vectors.more_words=100")
    assert "zebra" in learned.words.words
    assert learned.net.get_parameter("words.table.weight")[learned.words.encode(["a"])[0]].any()


PIECES = ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "a", "re", "##d", "zebra", "blue")


def test_words_start_from_a_bert_models_pieces(alignment_recipe: Path, tmp_path: Path) -> None:
    weights = bert_weights(TextTowerConfig(blocks=6, width=32, heads=1), len(PIECES))
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    (tmp_path / "more.txt").write_text("Zebra\ntwo words\na\n\n")
    task = begin(
        alignment_recipe,
        "net.words=bert",
        f"text_weights={tmp_path / 'model.safetensors'}",
        f"pieces={tmp_path / 'vocab.txt'}",
        f"more_words={tmp_path / 'more.txt'}",
    )
    pieces = weights["embeddings.word_embeddings.weight"]
    table = task.net.get_parameter("words.table.weight")
    assert task.words.words[-1] == "zebra", "a further word; lines of two words are none"
    assert task.words.words.count("a") == 1
    of_word = {word: table[task.words.encode([word])[0]] for word in ("a", "zebra", "red")}
    assert torch.equal(of_word["a"], pieces[PIECES.index("a")])
    assert torch.equal(of_word["zebra"], pieces[PIECES.index("zebra")])
    assert torch.allclose(of_word["red"], (pieces[6] + pieces[7]) / 2)
    assert torch.equal(table[UNKNOWN], pieces[1])
    ends = task.net.get_parameter("words.encoder.tower.tokens.weight")
    assert torch.equal(ends, pieces[2:4])
    first = task.net.get_parameter("words.encoder.tower.blocks.0.mlp.fc1.weight")
    assert torch.equal(first, weights["encoder.layer.0.intermediate.dense.weight"])
    assert task.recipe.net.embedding == 32, "as a checkpoint must say"


def test_a_list_of_other_pieces_is_refused(alignment_recipe: Path, tmp_path: Path) -> None:
    weights = bert_weights(TextTowerConfig(blocks=6, width=32, heads=1), len(PIECES) + 1)
    save_file(weights, tmp_path / "model.safetensors")
    (tmp_path / "vocab.txt").write_text("\n".join(PIECES) + "\n")
    places = (f"{name}={tmp_path / file}" for name, file in WEIGHT_FILES.items())
    with pytest.raises(DataError, match="11 tokens, but 10 pieces"):
        begin(alignment_recipe, "net.words=bert", *places)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ("text_weights=model.safetensors", "belong together"),
        ("more_words=words.txt", "more_words needs text_weights"),
        ("net.words=lstm", "net.words"),
        ("net.score=dot", "net.score"),
        ("losses.kind=softmax", "losses.kind"),
        ("run.metric=dense_map", "run.metric"),
        ("vocabulary.cleaning=densecap", "'cleaning'"),
        ("parses=x.json.gz", "parses"),
        ("net.words=edges", "parses"),
        ("net.train_embedding=false", "word_vectors.path"),
        ("net.weigh_words=true", "weigh_words"),
        ("data=[]", "data"),
        ("keep_words=true", "keep_words needs init_from"),
    ],
)
def test_impossible_recipes(change: str, said: str, alignment_recipe: Path) -> None:
    with pytest.raises(UsageError, match=said):
        load_recipe(alignment_recipe, (change,))


def test_only_what_reads_codes_learns_where_words_are_kept(
    alignment_recipe: Path, tmp_path: Path
) -> None:
    Engine(begin(alignment_recipe, "run.steps=2"), tmp_path / "first", CPU, Nobody()).train()
    codes = load_recipe(alignment_recipe, ()).data[0].codes
    other = tmp_path / "other.npz"
    replace(CodedPhotos.load(Path(codes)), detector="another").save(other)
    changes = (f"init_from={tmp_path / 'first'}", f"data.0.codes={other}", "run.steps=3")
    with pytest.raises(ModelError, match="another detector"):
        begin(alignment_recipe, *changes)
    task = begin(alignment_recipe, *changes, "keep_words=true")
    before = {name: value.clone() for name, value in task.net.state_dict().items()}
    Engine(task, tmp_path / "second", CPU, Nobody()).train()
    after = load_alignment(latest_checkpoint(tmp_path / "second" / "checkpoints"))
    changed = {
        name
        for name, value in after.net.state_dict().items()
        if not torch.equal(value, before[name])
    }
    assert changed == {"regions.linear.weight", "regions.linear.bias"}
    assert (after.state["detector"], after.words) == ("another", task.words)


def test_too_few_photos_for_a_batch(alignment_recipe: Path) -> None:
    with pytest.raises(DataError, match="cannot fill a batch of 7"):
        begin(alignment_recipe, "run.batch=7").batches(0, 1)
