"""One run from photos with sentences to descriptions of regions: its loss against a direct
computation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from regiontalk.errors import ModelError, UsageError
from regiontalk.inference import maxsim
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.training.checkpoints import (
    find_checkpoint,
    load_alignment,
    load_fcln,
    load_sentence_net,
)
from regiontalk.lab.training.engine import Engine
from regiontalk.lab.training.heads.caption_targets import known_tokens
from regiontalk.lab.training.heads.evaluation import open_coded_sentences, score_matrices
from regiontalk.lab.training.heads.joint import JointTask
from regiontalk.lab.training.heads.snippets import without_loose_ends
from regiontalk.lab.training.recipe import load_recipe
from regiontalk.language.vocabulary import END

CPU = torch.device("cpu")


class Nobody:
    def step(self, *_: object) -> None: ...
    def say(self, _: str) -> None: ...


@pytest.fixture(scope="module")
def recipe(alignment_recipe: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    given = load_recipe(alignment_recipe).data[0]
    path = tmp_path_factory.mktemp("joint") / "joint.toml"
    path.write_text(
        'kind = "joint"\n'
        f'data = {{ path = "{given.path}", codes = "{given.codes}" }}\n'
        "run = { steps = 60, batch = 6, workers = 0, log_every = 20, evaluate_every = 30, keep_best = 2 }\n"
        "snippets = { beta = 0.05, candidates = 2, place_weight = 0.1 }\n"
        "alignment = { size = 16, hidden = 12, embedding = 8, train_embedding = true, dropout = 0.0 }\n"
        "net = { hidden = 24, embedding = 12, dropout = 0.0 }\n"
        "vocabulary = { smallest_count = 1 }\n"
        'optimizer = { kind = "adamw", rate = 1e-2 }\n'
    )
    return path


def begin(recipe: Path, *changes: str) -> JointTask:
    return JointTask.begin(load_recipe(recipe, changes))


@pytest.mark.parametrize("score", ["sum", "cosine"])
def test_the_loss_is_the_likelihood_of_segments_over_their_best_regions(
    recipe: Path, score: str
) -> None:
    task = begin(recipe, f"alignment.score={score}")
    task.net.eval()
    batch = task.batches(0, 1)[0]
    vectors, words = task.aligner.embed(task.net.alignment, batch)
    scale = task.net.alignment.log_scale.exp().item() if score == "cosine" else 1.0
    total, count = 0.0, 0
    for photo, of_sentence in enumerate(words.split(batch.texts.lengths.tolist())):
        regions = vectors[photo, : int(batch.used[photo].sum())]
        scores = batch.scores[photo, : len(regions)].double().numpy().clip(1e-4)
        scores[0] = min(scores[0], scores[1:].max())
        fits = (of_sentence @ regions.T).detach().numpy() + 0.1 * np.log(scores)
        said = task.words.decode(batch.texts.tokens[photo, : len(fits)].tolist()).split()
        for start, end in maxsim.segments(maxsim.align_words(fits, 0.05)):
            tokens = known_tokens(" ".join(without_loose_ends(said[start:end])), task.words)
            if tokens:
                total -= np.log(
                    segment_likelihood(
                        task, batch.codes[photo], fits[start:end].mean(axis=0), scale, tokens
                    )
                )
                count += len(tokens) + 1
    loss = task._description_loss(task.net, batch, vectors, words)
    assert count
    assert loss.item() == pytest.approx(total / count, rel=1e-4)


def segment_likelihood(
    task: JointTask, codes: torch.Tensor, fits: np.ndarray, scale: float, tokens: list[int]
) -> float:
    """Σ over the two best regions of p(region) p(tokens | region), word by word."""
    shares = np.exp(scale * fits) / np.exp(scale * fits).sum()
    total = 0.0
    for row in np.argsort(-fits)[:2]:
        net = task.net.sentence
        state = net.begin(
            net.look(codes[None, row, None].float(), torch.zeros(1, 0, 1), torch.zeros(1, 0, 5))
        )
        logprob, before = 0.0, task.words.start()
        for token in (*tokens, END):
            logprobs, state = net.step(torch.tensor([before]), state)
            logprob, before = logprob + logprobs[0, token].item(), token
        total += shares[row] * np.exp(logprob)
    return total


def test_descriptions_teach_the_alignment_net_too(recipe: Path) -> None:
    task = begin(recipe)
    batch = task.batches(0, 1)[0]
    task._description_loss(
        task.net, batch, *task.aligner.embed(task.net.alignment, batch)
    ).backward()
    for part in (task.net.alignment.regions, task.net.alignment.words, task.net.sentence):
        assert any(one.grad is not None and one.grad.abs().sum() > 0 for one in part.parameters())


def test_the_alignment_net_may_begin_alone(recipe: Path) -> None:
    task = begin(recipe, "snippets.from_step=5", "snippets.weight=0.5")
    batch = task.batches(0, 1)[0]
    task.prepare_step(4)
    assert set(task.losses(batch)) == {"ranking"}
    task.prepare_step(5)
    assert set(task.losses(batch)) == {"ranking", "sentence"}
    assert (task.weight("ranking"), task.weight("sentence")) == (1.0, 0.5)


def test_both_parts_are_read_from_one_run(recipe: Path, tmp_path: Path) -> None:
    np.savez(tmp_path / "words.npz", words=np.array(["square", "red"]), vectors=np.eye(2, 5))
    task = begin(recipe, f'word_vectors.path="{tmp_path / "words.npz"}"')
    engine = Engine(task, tmp_path / "run", CPU, Nobody())
    first = task.losses(task.batches(0, 1)[0])
    engine.train()
    last = task.losses(task.batches(0, 1)[0])
    assert all(last[name] < 0.7 * first[name] for name in first)
    checkpoint = find_checkpoint(tmp_path / "run")
    aligned, said = load_alignment(checkpoint), load_sentence_net(checkpoint)
    assert (aligned.recipe.kind, said.recipe.kind) == ("alignment", "sentences")
    with pytest.raises(ModelError, match="'joint', not fcln"):
        load_fcln(checkpoint)
    records = list(Dataset(task.recipe.data.path, "dev"))
    assert len(list(score_matrices(tmp_path / "run", task.aligner.coded[0], records))) == 2
    sentences = open_coded_sentences(checkpoint, Path(task.recipe.data.codes))
    regions = next(sentences.regions(records, 1)).regions
    assert any(region.caption for region in regions)


@pytest.mark.parametrize(
    "change", ["net.views=3", "net.attention=8", "alignment.words=edges", "snippets.candidates=0"]
)
def test_what_a_joint_run_cannot_do(recipe: Path, change: str) -> None:
    with pytest.raises(UsageError):
        load_recipe(recipe, (change,))
