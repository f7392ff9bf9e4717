"""The words head: what it is exported with, and nets that cannot be one."""

from __future__ import annotations

from pathlib import Path

import pytest

from regiontalk.errors import ModelError
from regiontalk.export.alignment_head import BETA, words_head
from regiontalk.nets.alignment import LONGEST
from regiontalk.training.checkpoints import find_checkpoint


def test_it_says_how_it_is_used(alignment_run: Path) -> None:
    head = words_head(find_checkpoint(alignment_run), "float32")
    assert head.info.settings == {"beta": BETA["sum"], "longest": LONGEST, "score": "sum"}
    assert head.info.net["words"] == "brnn"
    assert set(head.graphs) == {"vectors", "words"}
    assert "square" in head.words.words


def test_a_chosen_beta_is_kept(alignment_run: Path) -> None:
    assert words_head(find_checkpoint(alignment_run), "float32", beta=0.3).info.settings["beta"] == 0.3


def test_edges_cannot_be_a_head(alignment_run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from regiontalk.nets.alignment import AlignmentConfig, AlignmentNet
    from regiontalk.training.checkpoints import read_state, save_checkpoint

    state = read_state(find_checkpoint(alignment_run))
    state["recipe"]["net"]["words"] = "edges"
    state["recipe"]["parses"] = str(tmp_path / "parses.json.gz")
    state["relations"] = ["", "det"]
    config = AlignmentConfig(words="edges", size=16, hidden=12, embedding=8, train_embedding=True, dropout=0.0)
    tokens = len(state["vocabulary"]["words"]) + 2
    net = AlignmentNet(config, state["code"], tokens, 2)
    kept = {key: value for key, value in state.items() if key not in ("format", "step")}
    checkpoint = save_checkpoint(tmp_path, 1, {"model": net.state_dict()}, kept)
    with pytest.raises(ModelError, match="dependency trees"):
        words_head(checkpoint, "float32")
