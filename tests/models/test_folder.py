"""Model folders: what is written is read again, and whatever is wrong with one is said in one
line."""

from __future__ import annotations

import hashlib
import json
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

import pytest

from regiontalk.errors import ModelError, OutputError, UsageError
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.folder import (
    DETECTOR,
    FORMAT,
    HEADS,
    SUMS,
    AlignmentHeadInfo,
    Head,
    ModelInfo,
    detector_fingerprint,
    read_model_folder,
    write_model_folder,
)
from regiontalk.models.settings import (
    RANKING_FEATURES,
    UNCHANGED,
    AlignmentPredictionConfig,
    PredictionConfig,
    Ranking,
)
from regiontalk.models.terms import Source, Terms

SETTINGS = PredictionConfig(
    proposals=100,
    candidates=6000,
    proposal_nms=0.7,
    final_nms=0.4,
    longest=12,
    score="product",
    caption_weight=0.5,
    calibration=(0.5, 4.0, -2.0),
)
INFO = ModelInfo("small", "fcln", "float16", 448, 32, SETTINGS, {"backbone": "tiny"}, {"step": 5})
RANKING = Ranking(
    RANKING_FEATURES,
    ((0.5,) * len(RANKING_FEATURES), (-1e-07,) * len(RANKING_FEATURES)),
    (0.25, 0.0),
    (1.5, -2.0),
    -3.0,
)
PLACES = ("../secret", "/etc/passwd", "../../a/step.onnx", "../../step.onnx", "../a/../b/step.onnx")
VOCABULARY = Vocabulary(("a", "dog", "café"), styles=("phrase", "object"))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    path = tmp_path / "model"
    write_model_folder(path, INFO, VOCABULARY, {name: name.encode() * 10 for name in DETECTOR})
    return path


def sign_again(folder: Path) -> None:
    names = sorted(item.name for item in folder.iterdir() if item.name != SUMS)
    lines = (
        f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in names
    )
    (folder / SUMS).write_text("".join(lines))


def change_info(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    info = json.loads((folder / "model.json").read_text())
    change(info)
    (folder / "model.json").write_text(json.dumps(info))
    sign_again(folder)


def refusal(folder: Path) -> ModelError:
    with pytest.raises(ModelError) as caught:
        read_model_folder(folder)
    assert caught.value.exit_code == 6
    assert "\n" not in caught.value.message
    return caught.value


def test_what_is_written_is_read_again(folder: Path) -> None:
    model = read_model_folder(folder)
    assert (model.info, model.words) == (INFO, VOCABULARY)
    assert model.graphs == {name: name.encode() * 10 for name in DETECTOR}


def test_the_sums_are_those_of_sha256sum(folder: Path) -> None:
    subprocess.run(["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=folder, check=True)


def test_a_folder_is_whole_or_not_there(tmp_path: Path) -> None:
    with pytest.raises(TypeError):
        write_model_folder(tmp_path / "deep" / "model", INFO, VOCABULARY, {"propose": "no bytes"})  # type: ignore[dict-item]
    unwritable = tmp_path / "file"
    unwritable.write_text("")
    with pytest.raises(OutputError, match="cannot be written"):
        write_model_folder(unwritable / "model", INFO, VOCABULARY, {})
    assert [item.name for item in tmp_path.rglob("*")] == ["file"]


def test_nothing_is_written_over(folder: Path) -> None:
    before = (folder / SUMS).read_text()
    with pytest.raises(UsageError, match="already exists"):
        write_model_folder(folder, replace(INFO, name="other"), VOCABULARY, {})
    assert (folder / SUMS).read_text() == before


@pytest.mark.parametrize("name", ["propose.onnx", "step.onnx", "vocabulary.json", "model.json"])
def test_a_flipped_bit_is_found(folder: Path, name: str) -> None:
    data = bytearray((folder / name).read_bytes())
    data[len(data) // 2] ^= 1
    (folder / name).write_bytes(data)
    error = refusal(folder)
    assert name in error.message
    assert error.hint is not None


def test_swapped_graphs_are_found(folder: Path) -> None:
    (folder / "step.onnx").rename(folder / "other")
    (folder / "recognize.onnx").rename(folder / "step.onnx")
    (folder / "other").rename(folder / "recognize.onnx")
    assert "of another model" in refusal(folder).message


@pytest.mark.parametrize("name", ["recognize.onnx", "model.json", SUMS])
def test_a_missing_file_is_named(folder: Path, name: str) -> None:
    (folder / name).unlink()
    assert name in refusal(folder).message


@pytest.mark.parametrize("name", ["recognize.onnx", "model.json", "vocabulary.json"])
def test_so_is_one_that_the_sums_do_not_miss(folder: Path, name: str) -> None:
    (folder / name).unlink()
    sign_again(folder)
    assert name in refusal(folder).message


def test_a_file_too_many_is_named(folder: Path) -> None:
    (folder / "step.onnx.data").write_bytes(b"weights from elsewhere")
    assert "step.onnx.data: not named" in refusal(folder).message
    sign_again(folder)
    assert "step.onnx.data: not part" in refusal(folder).message


def test_what_a_file_manager_leaves_behind_does_no_harm(folder: Path) -> None:
    (folder / ".DS_Store").write_bytes(b"x")
    assert read_model_folder(folder).info == INFO


class TestSharedFiles:
    """A folder beside another one names the files that both have, and does not have them itself."""

    @pytest.fixture
    def sharing(self, folder: Path) -> Path:
        graphs = dict(read_model_folder(folder).graphs) | {"propose": b"another backbone"}
        path = folder.parent / "fast"
        write_model_folder(path, replace(INFO, name="fast"), VOCABULARY, graphs, share=folder)
        return path

    def test_only_what_differs_is_written(self, sharing: Path) -> None:
        assert {item.name for item in sharing.iterdir()} == {SUMS, "model.json", "propose.onnx"}

    def test_it_is_read_whole(self, sharing: Path, folder: Path) -> None:
        model, other = read_model_folder(sharing), read_model_folder(folder)
        assert (model.info.name, model.graphs["propose"]) == ("fast", b"another backbone")
        assert (model.words, model.graphs["step"]) == (other.words, other.graphs["step"])

    def test_sha256sum_can_check_it(self, sharing: Path) -> None:
        subprocess.run(
            ["sha256sum", "--check", "--strict", "--quiet", SUMS], cwd=sharing, check=True
        )

    def test_a_shared_file_that_is_another_by_now_is_named(
        self, sharing: Path, folder: Path
    ) -> None:
        (folder / "step.onnx").write_bytes(b"of a later version")
        assert "model/step.onnx: damaged, or of another model" in refusal(sharing).message
        (folder / "step.onnx").unlink()
        assert "step.onnx" in refusal(sharing).message

    def test_the_other_folder_must_be_beside_it(self, folder: Path, tmp_path: Path) -> None:
        with pytest.raises(UsageError, match="must be in the same folder"):
            write_model_folder(tmp_path / "deep" / "fast", INFO, VOCABULARY, {}, share=folder)


@pytest.mark.parametrize(
    "line", ["", "abc  step.onnx", *("0" * 64 + f"  {place}" for place in PLACES)]
)
def test_broken_sums_are_refused(folder: Path, line: str) -> None:
    with (folder / SUMS).open("a") as file:
        file.write(line + "\n")
    assert f"{SUMS}, line 7" in refusal(folder).message


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda info: info.update(colour="red"), "unknown key 'colour'"),
        (lambda info: info["prediction"].update(colour="red"), "prediction: unknown key 'colour'"),
        (lambda info: info.pop("pad_to"), "'pad_to' is missing"),
        (lambda info: info.update(input_size="448"), "input_size: '448' is not of type int"),
        (lambda info: info.update(prediction=[]), "prediction: [] is not of type dict"),
        (lambda info: info["prediction"].update(score="best"), "prediction: score is 'best'"),
        (lambda info: info["prediction"].update(candidates=-5), "prediction: candidates is -5"),
        (lambda info: info["prediction"].update(proposals=-1), "prediction: proposals is -1"),
        (
            lambda info: info["prediction"].update(proposals=10**6),
            "prediction: proposals is 1000000",
        ),
        (lambda info: info["prediction"].update(longest=10**6), "prediction: longest is 1000000"),
        (lambda info: info["prediction"].update(longest=0), "prediction: longest is 0"),
        (
            lambda info: info["prediction"].update(proposal_nms=1.5),
            "prediction: proposal_nms is 1.5",
        ),
        (lambda info: info["prediction"].update(final_nms=float("nan")), "NaN"),
        (lambda info: info["prediction"].update(caption_weight=float("inf")), "Infinity"),
        (
            lambda info: info["prediction"].update(calibration=[1.0, -0.5, 0.0]),
            "calibration is [1.0, -0.5, 0.0]",
        ),
        (
            lambda info: info["prediction"].update(calibration=[1.0, 1.0]),
            "calibration: [1.0, 1.0] is not",
        ),
        (
            lambda info: info["prediction"].update(calibration="1 1 0"),
            "calibration: '1 1 0' is not",
        ),
        (lambda info: info.update(pad_to=0), "pad_to is 0"),
        (lambda info: info.update(input_size=10**6), "input_size is 1000000"),
        (lambda info: info.update(kind="align"), "kind 'align'"),
        (lambda info: info.update(format=0), "format 0"),
    ],
)
def test_a_strange_description_is_refused(
    folder: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    change_info(folder, change)
    assert said in refusal(folder).message


def test_folders_from_before_calibration_keep_their_scores(folder: Path) -> None:
    change_info(folder, lambda info: info["prediction"].pop("calibration"))
    assert read_model_folder(folder).info.prediction.calibration == UNCHANGED


@pytest.fixture
def ranked(tmp_path: Path) -> Path:
    path = tmp_path / "ranked"
    info = replace(INFO, prediction=replace(SETTINGS, ranking=RANKING))
    write_model_folder(path, info, VOCABULARY, {name: name.encode() * 10 for name in DETECTOR})
    return path


def test_a_ranking_is_read_as_it_was_written(ranked: Path, folder: Path) -> None:
    assert read_model_folder(ranked).info.prediction == replace(SETTINGS, ranking=RANKING)
    assert "ranking" not in json.loads((folder / "model.json").read_text())["prediction"], (
        "for older programs"
    )


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (
            lambda ranking: ranking["weights"].pop(),
            "ranking: weights, biases and outputs are not of shapes",
        ),
        (
            lambda ranking: ranking["weights"][0].pop(),
            "ranking: weights, biases and outputs are not of shapes",
        ),
        (
            lambda ranking: ranking.update(biases=[0.0, "x"]),
            "ranking.biases[1]: 'x' is not a finite number",
        ),
        (
            lambda ranking: ranking.update(biases=[0.0, None]),
            "ranking.biases[1]: None is not a finite number",
        ),
        (lambda ranking: ranking.update(biases=0.0), "ranking.biases: 0.0 is not a list"),
        (
            lambda ranking: ranking.update(output_bias=None),
            "ranking.output_bias: None is not a finite number",
        ),
        (lambda ranking: ranking.update(colour="red"), "ranking: unknown key 'colour'"),
        (lambda ranking: ranking.pop("outputs"), "ranking: 'outputs' is missing"),
        (lambda ranking: ranking["features"].reverse(), "ranking: made for other features"),
    ],
)
def test_a_strange_ranking_is_refused(
    ranked: Path, change: Callable[[dict[str, Any]], Any], said: str
) -> None:
    change_info(ranked, lambda info: change(info["prediction"]["ranking"]))
    message = refusal(ranked).message
    assert f"{ranked / 'model.json'}: prediction.{said}" in message


def test_a_ranking_that_is_none_at_all_is_refused(ranked: Path) -> None:
    change_info(ranked, lambda info: info["prediction"].update(ranking=[1.0]))
    assert "prediction.ranking: [1.0] is not of type dict" in refusal(ranked).message


def test_a_newer_format_asks_for_a_newer_program(folder: Path) -> None:
    change_info(folder, lambda info: info.update(format=FORMAT + 1, unheard_of=1))
    error = refusal(folder)
    assert f"format {FORMAT + 1}" in error.message
    assert "upgrade" in str(error.hint)


@pytest.mark.parametrize("name", ["model.json", "vocabulary.json"])
@pytest.mark.parametrize("content", [b"{", b"[]", b"\xff\xfe"])
def test_what_is_no_json_object_is_refused(folder: Path, name: str, content: bytes) -> None:
    (folder / name).write_bytes(content)
    sign_again(folder)
    refusal(folder)


def test_no_folder_no_model(tmp_path: Path) -> None:
    assert "export" in str(refusal(tmp_path / "nowhere").hint)


class TestHeads:
    """A head's own files stand beside the model's."""

    GRAPHS: ClassVar[dict[str, bytes]] = {name: name.encode() * 10 for name in DETECTOR}

    def head(self, detector: str | None = None) -> Head:
        settings = AlignmentPredictionConfig(beta=0.1, longest=24, score="cosine")
        info = AlignmentHeadInfo(
            detector or detector_fingerprint(self.GRAPHS), settings, {"size": 8}, {"step": 3}
        )
        return Head(
            info, Vocabulary(("dog",), "karpathy"), {name: name.encode() for name in HEADS["words"]}
        )

    @pytest.fixture
    def with_head(self, tmp_path: Path) -> Path:
        path = tmp_path / "with-head"
        write_model_folder(path, INFO, VOCABULARY, self.GRAPHS, {"words": self.head()})
        return path

    def test_what_is_written_is_read_again(self, with_head: Path) -> None:
        model = read_model_folder(with_head)
        assert model.heads == {"words": self.head()}
        assert model.words == VOCABULARY

    def test_without_heads_nothing_is_said_of_them(self, folder: Path) -> None:
        assert "heads" not in json.loads((folder / "model.json").read_text())
        assert read_model_folder(folder).heads == {}

    def test_a_head_of_another_detector(self, tmp_path: Path) -> None:
        path = tmp_path / "model"
        write_model_folder(path, INFO, VOCABULARY, self.GRAPHS, {"words": self.head("0" * 64)})
        assert "another detector" in refusal(path).message

    @pytest.mark.parametrize("name", ["words.onnx", "vectors.onnx", "words_vocabulary.json"])
    def test_a_file_of_it_is_missing(self, with_head: Path, name: str) -> None:
        (with_head / name).unlink()
        sign_again(with_head)
        assert f"{name}: missing" in refusal(with_head).message

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            (lambda heads: heads.update(feet={}), "unknown head 'feet'"),
            (lambda heads: heads.update(words=[]), "heads.words: [] is not of type dict"),
            (lambda heads: heads["words"].pop("detector"), "'detector' is missing"),
            (lambda heads: heads["words"].update(detector=5), "detector: 5 is not of type str"),
            (
                lambda heads: heads["words"]["settings"].update(beta="x"),
                "settings.beta: 'x' is not a finite number",
            ),
            (lambda heads: heads["words"]["settings"].update(beta=-1), "settings: beta is -1"),
            (
                lambda heads: heads["words"]["settings"].update(longest=10**9),
                "settings: longest is 1000000000",
            ),
            (lambda heads: heads["words"]["settings"].update(longest=0), "settings: longest is 0"),
            (
                lambda heads: heads["words"]["settings"].update(colour=1),
                "settings: unknown key 'colour'",
            ),
        ],
    )
    def test_a_strange_description(
        self, with_head: Path, change: Callable[[dict[str, Any]], Any], said: str
    ) -> None:
        change_info(with_head, lambda info: change(info["heads"]))
        assert said in refusal(with_head).message

    def test_settings_do_not_change_the_detector(self) -> None:
        other = self.GRAPHS | {"recognize": b"other"}
        assert detector_fingerprint(self.GRAPHS | {"step": b"other"}) == detector_fingerprint(
            self.GRAPHS
        )
        assert detector_fingerprint(other) != detector_fingerprint(self.GRAPHS)


def test_terms_are_read_again_and_may_be_missing(tmp_path: Path, folder: Path) -> None:
    assert read_model_folder(folder).info.terms is None
    assert "terms" not in json.loads((folder / "model.json").read_text())
    terms = Terms(
        "MIT", "Free.", (Source("net", "MIT", "a package"),), (Source("photos", "CC0-1.0"),)
    )
    graphs = dict.fromkeys(DETECTOR, b"graph")
    write_model_folder(tmp_path / "other", replace(INFO, terms=terms), VOCABULARY, graphs)
    assert read_model_folder(tmp_path / "other").info.terms == terms
