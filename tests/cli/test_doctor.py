from __future__ import annotations

import importlib.metadata
import json
import sys
import tomllib
from pathlib import Path

import pytest
from click.testing import CliRunner

import regiontalk
from regiontalk.cli import doctor

ROOT = Path(__file__).parents[2]


def report() -> dict[str, object]:
    result = CliRunner().invoke(doctor.command, ["--json"])
    assert result.exit_code == 0, result.output
    return json.loads(result.output)


def hide(monkeypatch: pytest.MonkeyPatch, *packages: str) -> None:
    """Makes packages look as if they were not installed."""
    true_version = importlib.metadata.version

    def version(name: str) -> str:
        if name in packages:
            raise importlib.metadata.PackageNotFoundError(name)
        return true_version(name)

    monkeypatch.setattr(importlib.metadata, "version", version)


def test_json_names_versions_and_machine() -> None:
    found = report()["found"]
    assert found["regiontalk"] == regiontalk.__version__
    assert found["python"] == ".".join(map(str, sys.version_info[:3]))
    assert found["numpy"] == importlib.metadata.version("numpy")
    assert int(found["cpu_threads"]) >= 1
    assert "pytest" not in found  # a developer's tool


def test_every_extra_is_named_with_what_it_is_for(monkeypatch: pytest.MonkeyPatch) -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    parts = [f"{part}; extra == '{extra}'" for extra, parts in extras.items() for part in parts]
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: parts)
    named = {finding.purpose.partition(":")[0] for finding in doctor.examine()}
    assert set(extras) - {"dev"} == set(doctor.EXTRAS) <= named
    assert "dev" not in named


def test_a_missing_part_comes_with_its_command(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "pillow-heif", "onnx")
    missing = {part["name"]: part["fix"] for part in report()["missing"]}
    assert missing["pillow-heif"] == "pip install 'regiontalk[heif]'"
    assert missing["onnx"] == "pip install 'regiontalk[train]'"
    text = CliRunner().invoke(doctor.command).output
    assert text.count("pip install 'regiontalk[heif]'") == 1


def test_a_clean_install_works_and_names_heif_first_of_the_extras(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    parts = ["numpy>=1", "torch; extra == 'train'", "onnx; extra == 'train'"]
    parts.append("pillow-heif; extra == 'heif'")
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: parts)
    hide(monkeypatch, "torch", "onnx", "pillow-heif")
    lines = CliRunner().invoke(doctor.command).output.splitlines()
    assert lines[0] == "Everything needed to caption photos works."
    assert not any("missing" in line for line in lines)
    start = lines.index("Optional, not installed:") + 1
    assert [line.split("  ")[0] for line in lines[start:]] == [
        "pip install 'regiontalk[heif]'",
        "pip install 'regiontalk[train]'",
    ]


def test_a_missing_base_part_is_said_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.metadata, "requires", lambda _: ["numpy>=1"])
    hide(monkeypatch, "numpy")
    lines = CliRunner().invoke(doctor.command).output.splitlines()
    assert lines[0] == "Not everything works. Missing or broken: numpy."
    assert "numpy  pip install regiontalk" in lines


def test_torch_is_not_imported_when_it_is_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    hide(monkeypatch, "torch")
    monkeypatch.setitem(sys.modules, "torch", None)  # an import would now fail
    found = report()["found"]
    assert "torch" not in found
    assert found["cuda"] == "not checked"


def test_a_broken_torch_is_a_finding_not_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("torch")
    monkeypatch.setitem(sys.modules, "torch", None)
    (cuda,) = (part for part in report()["missing"] if part["name"] == "cuda")
    assert "torch fails" in cuda["purpose"]
    assert "regiontalk[train]" in cuda["fix"]


@pytest.mark.parametrize(
    ("content", "found"),
    [(None, "none yet"), ('{"name": "compact-1"}', "compact-1"), ("{broken", None), ("[]", None)],
)
def test_the_embedded_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: str | None, found: str | None
) -> None:
    if content is not None:
        (tmp_path / "model.json").write_text(content)
    monkeypatch.setattr("regiontalk.models.packaged.EMBEDDED", tmp_path)
    model = next(finding for finding in doctor.examine() if finding.name == "model")
    assert model.found == found
    assert found is not None or model.fix


def test_a_package_run_from_its_source_is_no_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    def requires(name: str) -> list[str]:
        raise importlib.metadata.PackageNotFoundError(name)

    monkeypatch.setattr(importlib.metadata, "requires", requires)
    assert report()["found"]["regiontalk"] == regiontalk.__version__


def test_the_terms_of_the_models_are_shown() -> None:
    text = CliRunner().invoke(doctor.command).output
    assert text.count("trained on data with non-commercial terms") == 2
