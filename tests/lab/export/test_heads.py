"""Heads in model folders: exported, added, stored small, and refused where they do not belong."""

from __future__ import annotations

import copy
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import onnxruntime
import pytest
import torch

from regiontalk.errors import ModelError, UsageError
from regiontalk.inference.alignment import region_vectors, word_vectors
from regiontalk.lab.export import detector
from regiontalk.lab.export.detector import add_heads, export_model
from regiontalk.lab.export.graphs import serialize, shrink
from regiontalk.lab.export.heads import load_heads, trace_alignment_net, trace_sentence_net
from regiontalk.lab.nets.alignment import AlignmentConfig, AlignmentNet, Texts
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, MultimodalRNNConfig
from regiontalk.lab.nets.sentence_encoders import WINDOW_WORDS
from regiontalk.lab.training.checkpoints import find_checkpoint, read_state, save_checkpoint
from regiontalk.models.folder import GRAPHS, read_model_folder, write_model_folder
from regiontalk.models.onnx_runtime import OnnxRuntime
from regiontalk.models.settings import AlignmentPredictionConfig
from regiontalk.models.torch_loading import DEFAULT_BETAS

CODE, TOKENS = 10, 12
SMALL = MultimodalRNNConfig(embedding=16, hidden=16)


def test_a_copy_with_a_head_is_the_model_and_the_head(
    tiny_model: Path, aligning_model: Path
) -> None:
    plain, added = read_model_folder(tiny_model), read_model_folder(aligning_model)
    assert added.graphs == plain.graphs
    assert added.words == plain.words
    assert set(added.heads) == {"words"}
    assert added.info.name == "aligning"


@pytest.fixture
def traced(tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exporting again would give the same graphs, only later."""
    graphs = read_model_folder(tiny_model).graphs
    monkeypatch.setattr(
        detector, "trace", lambda _: {name: onnx.load_from_string(graphs[name]) for name in graphs}
    )


@pytest.mark.usefixtures("traced")
def test_a_checkpoint_is_exported_with_its_head(
    shaken_checkpoint: Path, aligning_model: Path, alignment_run: Path, tmp_path: Path
) -> None:
    heads = load_heads([alignment_run], "float32")
    export_model(shaken_checkpoint, tmp_path / "model", "aligning", heads=heads)
    assert read_model_folder(tmp_path / "model").heads == read_model_folder(aligning_model).heads


def test_a_head_keeps_its_words_when_it_is_stored_small(
    tiny_model: Path, alignment_run: Path, aligning_model: Path, tmp_path: Path
) -> None:
    whole = OnnxRuntime(aligning_model, threads=1)
    codes = np.random.default_rng(0).normal(size=(4, 192)).astype(np.float32)
    assert load_heads([alignment_run], "int8") == load_heads([alignment_run], "int8-stored")
    for precision in ("float16", "int8-stored"):
        add_heads(tiny_model, tmp_path / precision, "small", load_heads([alignment_run], precision))
        small = OnnxRuntime(tmp_path / precision, threads=1)
        for found, expected in (
            (region_vectors(small, codes), region_vectors(whole, codes)),
            (word_vectors(small, [2, 3, 4]), word_vectors(whole, [2, 3, 4])),
        ):
            assert np.abs(found - expected).max() < 0.1 * np.abs(expected).max()


@pytest.mark.usefixtures("traced")
def test_a_head_of_another_detector_is_refused(
    alignment_run: Path, shaken_checkpoint: Path, tiny_model: Path, tmp_path: Path
) -> None:
    heads = load_heads([alignment_run], "float32")
    model = read_model_folder(tiny_model)
    write_model_folder(
        tmp_path / "other", model.info, model.words, {**model.graphs, "recognize": b"other"}
    )
    with pytest.raises(ModelError, match="another detector") as caught:
        add_heads(tmp_path / "other", tmp_path / "model", "other", heads)
    assert caught.value.exit_code == 6
    stray = {"words": replace(heads["words"], info=replace(heads["words"].info, detector="0" * 64))}
    with pytest.raises(ModelError, match="another detector"):
        export_model(shaken_checkpoint, tmp_path / "model", "other", heads=stray)
    assert not (tmp_path / "model").exists()


def test_two_heads_of_one_kind(alignment_run: Path) -> None:
    with pytest.raises(UsageError, match="a second head 'words'"):
        load_heads([alignment_run, alignment_run], "float32")


def test_what_is_no_head(shaken_checkpoint: Path) -> None:
    with pytest.raises(ModelError, match="kind 'fcln' is not a head"):
        load_heads([shaken_checkpoint], "float32")


def test_a_head_is_replaced_by_a_newer_one(
    aligning_model: Path, alignment_run: Path, tmp_path: Path
) -> None:
    add_heads(aligning_model, tmp_path / "again", "again", load_heads([alignment_run], "float16"))
    found = read_model_folder(tmp_path / "again").heads["words"].graphs
    assert found != read_model_folder(aligning_model).heads["words"].graphs


def test_a_damaged_head_is_found(aligning_model: Path, tmp_path: Path) -> None:
    model = Path(shutil.copytree(aligning_model, tmp_path / "model"))
    data = bytearray((model / "words.onnx").read_bytes())
    data[-100] ^= 1
    (model / "words.onnx").write_bytes(data)
    with pytest.raises(ModelError, match=r"words\.onnx: damaged"):
        read_model_folder(model)


def test_a_words_head_says_how_it_is_used(alignment_run: Path) -> None:
    assert load_heads([alignment_run], "float32", beta=0.3)["words"].info.settings.beta == 0.3
    head = load_heads([alignment_run], "float32")["words"]
    assert head.info.settings == AlignmentPredictionConfig(
        DEFAULT_BETAS["sum"], WINDOW_WORDS, "sum"
    )
    assert head.info.net["words"] == "brnn"
    assert set(head.graphs) == {"vectors", "words"}
    assert "square" in head.words.words


def test_the_graph_of_a_bert_encoder_reads_what_the_net_reads() -> None:
    torch.manual_seed(0)
    config = AlignmentConfig(
        words="bert", score="cosine", size=16, embedding=64, train_embedding=True, weigh_words=True
    )
    net = AlignmentNet(config, CODE, TOKENS).eval()
    graphs = serialize(trace_alignment_net(net, CODE), "float32")
    session = onnxruntime.InferenceSession(graphs["words"])
    for length in (1, 5, WINDOW_WORDS):
        tokens = torch.zeros(1, WINDOW_WORDS, dtype=torch.long)
        tokens[0, :length] = torch.randint(2, TOKENS, (length,))
        mask = (torch.arange(WINDOW_WORDS) < length).float()[None]
        inputs = {"tokens": tokens.numpy(), "mask": mask.numpy()}
        (vectors,) = session.run(None, inputs)
        expected = net.read(Texts(tokens, torch.tensor([length]))).detach().numpy()
        assert np.allclose(vectors[:length], expected, atol=1e-5)


def test_edges_cannot_be_a_head(alignment_run: Path, tmp_path: Path) -> None:
    state = read_state(find_checkpoint(alignment_run))
    state["recipe"]["net"]["words"] = "edges"
    state["recipe"]["parses"] = str(tmp_path / "parses.json.gz")
    state["relations"] = ["", "det"]
    config = AlignmentConfig(
        words="edges", size=16, hidden=12, embedding=8, train_embedding=True, dropout=0.0
    )
    tokens = len(state["vocabulary"]["words"]) + 2
    net = AlignmentNet(config, state["code"], tokens, 2)
    kept = {key: value for key, value in state.items() if key not in ("format", "step")}
    checkpoint = save_checkpoint(tmp_path, 1, {"model": net.state_dict()}, kept)
    with pytest.raises(ModelError, match="dependency trees"):
        load_heads([checkpoint], "float32")


@pytest.mark.parametrize(
    "config",
    [
        SMALL,
        replace(SMALL, cell="lstm", attention=16, heads=2, views=3),
        replace(SMALL, conditioning="multiplicative"),
    ],
    ids=["paper", "best", "multiplicative"],
)
def test_the_graphs_of_a_sentence_net_say_what_it_says(config: MultimodalRNNConfig) -> None:
    torch.manual_seed(0)
    net = MultimodalRNN(CODE, TOKENS, 1, config).eval()
    for parameter in net.parameters():
        parameter.data = torch.randn(parameter.shape) * 0.3
    traced = trace_sentence_net(net, CODE)
    for precision, tolerance in (("float32", 1e-4), ("float16", 5e-2), ("int8-stored", 0.3)):
        graphs = {name: shrink(copy.deepcopy(graph), precision) for name, graph in traced.items()}
        sessions = {
            name: onnxruntime.InferenceSession(graph.SerializeToString())
            for name, graph in graphs.items()
        }
        compare(net, sessions, tolerance)


@torch.no_grad()
def compare(
    net: MultimodalRNN, sessions: dict[str, onnxruntime.InferenceSession], tolerance: float
) -> None:
    for rows, regions in ((1, 20), (7, 3)):  # neither is what the graphs were traced with
        scene = (
            torch.randn(rows, 3, CODE),
            torch.randn(rows, regions, CODE),
            torch.rand(rows, regions, 5),
        )
        state = net.begin(net.look(*scene))
        given = dict(
            zip(GRAPHS["sentence_begin"][0], (part.numpy() for part in scene), strict=True)
        )
        arrays = sessions["sentence_begin"].run(None, given)
        for token in (TOKENS, 3, 5):
            tokens = torch.full((rows,), token)
            expected, state = net.step(tokens, state)
            given = dict(zip(GRAPHS["sentence_step"][0], (tokens.numpy(), *arrays), strict=True))
            logprobs, *changed = sessions["sentence_step"].run(None, given)
            arrays = [*changed, *arrays[3:]]
            np.testing.assert_allclose(logprobs, expected.numpy(), atol=tolerance)
