"""`regiontalk doctor`: what is installed, which device, which model, and how to fix what is
missing."""

from __future__ import annotations

import importlib.metadata
import platform
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import click

import regiontalk
from regiontalk.cli import console
from regiontalk.cli.options import json_option
from regiontalk.errors import DataError
from regiontalk.io.files import read_json
from regiontalk.io.provenance import cpu_cores, instruction_sets
from regiontalk.models import packaged
from regiontalk.models.providers import available, devices_of

EXTRAS = {
    "heif": "HEIF photos, as iPhones write them",
    "train": "train, export, --device cuda",
    "evaluate": "evaluate and fit with METEOR",
    "video": "videos: caption, describe, find, index, search",
    "serve": "the page and the HTTP API",
    "mcp": "tools for assistants",
    "florence": "Florence-2, another model",
    "edgeboxes": "EdgeBoxes, a source of regions",
    "parse": "data phrases, dependency trees",
    "cluster": "--engine ray",
    "postgres": "index --store, search --store",
}
"""What each is for, in the order of the report; `dev` are the developers' tools."""


@dataclass(frozen=True)
class Finding:
    """One check: what was found (None: it is missing) and the command that fixes it."""

    name: str
    found: str | None
    purpose: str = ""
    fix: str | None = None
    extra: str | None = None
    """The extra that installs it; None for what captions need."""


@click.command()
@json_option
def command(as_json: bool) -> None:
    """Show what is installed, which device and model are used, and how to fix what is missing."""
    findings = examine()
    missing = [finding for finding in findings if finding.found is None]
    if as_json:
        console.print_json(
            {
                "version": regiontalk.__version__,
                "found": {
                    finding.name: finding.found for finding in findings if finding.found is not None
                },
                "missing": [asdict(finding) for finding in missing],
            }
        )
        return
    click.echo(_verdict(missing) + "\n")
    width = max(len(finding.name) for finding in findings)
    for finding in findings:
        if finding.extra is None or finding.found is not None:
            purpose = f"  ({finding.purpose})" if finding.purpose else ""
            click.echo(f"{finding.name:<{width}}  {finding.found or 'missing'}{purpose}")
    _print_fixes(missing)


def _verdict(missing: Sequence[Finding]) -> str:
    """Whether photos can be captioned; extras do not count."""
    needed = [finding.name for finding in missing if finding.extra is None]
    if needed:
        return f"Not everything works. Missing or broken: {', '.join(needed)}."
    return "Everything needed to caption photos works."


def _print_fixes(missing: Sequence[Finding]) -> None:
    """What is broken first, then one line for each extra that is not complete."""
    needed = [finding for finding in missing if finding.extra is None]
    if needed:
        click.echo("\nTo fix what is missing:")
    for finding in needed:
        click.echo(f"{finding.name}  {finding.fix}")
    absent = {finding.extra for finding in missing}
    extras = [extra for extra in EXTRAS if extra in absent]
    if extras:
        click.echo("\nOptional, not installed:")
    for extra in extras:
        command_line = f"pip install 'regiontalk[{extra}]'"
        click.echo(f"{command_line:<36}  {EXTRAS[extra]}")


def examine() -> list[Finding]:
    """All checks, in the order of the report."""
    return [
        Finding("regiontalk", regiontalk.__version__),
        Finding("python", platform.python_version()),
        Finding("platform", platform.platform()),
        Finding("cpu_threads", str(cpu_cores())),
        Finding("cpu_instructions", " ".join(instruction_sets()) or "not known"),
        _devices(),
        _own_model("model", packaged.EMBEDDED),
        _own_model("fast model", packaged.FAST),
        *_parts(),
        _cuda(),
    ]


def _devices() -> Finding:
    """What `--device` can name with the ONNX Runtime that is installed."""
    try:
        return Finding("devices", ", ".join(devices_of(available())), "--device, in ONNX Runtime")
    except Exception as error:  # a broken onnxruntime must be reported, whatever it raises
        reason = " ".join(str(error).split())[:200]
        fix = "pip install --force-reinstall onnxruntime"
        return Finding("devices", None, f"onnxruntime fails: {reason}", fix)


def _own_model(title: str, folder: Path) -> Finding:
    description = folder / "model.json"
    if not description.is_file():
        return Finding(title, "none yet", "this version does not include it")
    try:
        described = read_json(description)
        name = str(described["name"])
        terms = described.get("terms") or {}
        summary = terms.get("summary", "")
    except (DataError, LookupError, TypeError, AttributeError):
        return Finding(
            title,
            None,
            "model.json cannot be read",
            "pip install --force-reinstall regiontalk",
        )
    return Finding(title, name, f"embedded. {summary}" if summary else "embedded")


def _parts() -> list[Finding]:
    """The packages that our metadata requires, base first, then each extra; not the developers'
    tools."""
    findings = []
    try:
        requirements = importlib.metadata.requires("regiontalk") or []
    except importlib.metadata.PackageNotFoundError:  # run from its source, never installed
        requirements = []
    for requirement in requirements:
        name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
        marker = re.search(r"extra == ['\"]([\w-]+)['\"]", requirement)
        if marker is None:
            findings.append(Finding(name, _version(name), fix="pip install regiontalk"))
        elif (extra := marker[1]) != "dev":
            purpose = f"{extra}: {EXTRAS[extra]}"
            fix = f"pip install 'regiontalk[{extra}]'"
            findings.append(Finding(name, _version(name), purpose, fix, extra))
    return findings


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _cuda() -> Finding:
    """Imports torch, because nothing else knows about the device."""
    if _version("torch") is None:
        return Finding("cuda", "not checked", "torch is not installed")
    try:
        import torch

        available = torch.cuda.is_available()
        return Finding(
            "cuda", torch.cuda.get_device_name(0) if available else "none", "train: device"
        )
    except Exception as error:  # a broken torch must be reported, whatever it raises
        reason = " ".join(str(error).split())[:200]
        return Finding(
            "cuda",
            None,
            f"torch fails: {reason}",
            "pip install --force-reinstall 'regiontalk[train]'",
        )
