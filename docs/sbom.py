"""A bill of materials (CycloneDX 1.6) of an installed RegionTalk: `python docs/sbom.py > sbom.json`.

Lists the package, its models and what it needs, as they are installed in this environment; packages
of extras too, if they are there.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from importlib.metadata import Distribution, PackageNotFoundError, distribution
from typing import Any

from regiontalk.models import packaged

PACKAGE = "regiontalk"
REQUIREMENT = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")


def bill() -> dict[str, Any]:
    installed = dict(_installed(PACKAGE))
    package = installed.pop(PACKAGE)
    models = list(_models())
    needs = {_reference(dist): _needs(dist, installed) for dist in installed.values()}
    needs[_reference(package)] = _needs(package, installed) + [one["bom-ref"] for one in models]
    libraries = [_library(installed[name]) for name in sorted(installed)]
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {**_library(package), "type": "application"}},
        "components": [*libraries, *models],
        "dependencies": [{"ref": ref, "dependsOn": needs[ref]} for ref in sorted(needs)],
    }


def _installed(package: str) -> Iterator[tuple[str, Distribution]]:
    """A package and all that it needs, directly or not, by normalised names."""
    waiting, seen = [package], set[str]()
    while waiting:
        name = waiting.pop()
        if name in seen:
            continue
        seen.add(name)
        try:
            dist = distribution(name)
        except PackageNotFoundError:  # of an extra, or of another system
            continue
        yield name, dist
        waiting += _required(dist)


def _required(dist: Distribution) -> list[str]:
    names = [REQUIREMENT.match(line) for line in dist.requires or ()]
    return sorted({_normalised(name[0]) for name in names if name})


def _needs(dist: Distribution, installed: dict[str, Distribution]) -> list[str]:
    return [_reference(installed[name]) for name in _required(dist) if name in installed]


def _normalised(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _reference(dist: Distribution) -> str:
    return f"pkg:pypi/{_normalised(dist.metadata['Name'])}@{dist.version}"


def _library(dist: Distribution) -> dict[str, Any]:
    reference = _reference(dist)
    return {
        "type": "library",
        "bom-ref": reference,
        "name": dist.metadata["Name"],
        "version": dist.version,
        "purl": reference,
        **_licences(dist),
    }


def _licences(dist: Distribution) -> dict[str, Any]:
    """As the package states them; nothing if it does not."""
    expression = dist.metadata.get("License-Expression")
    if expression:
        return {"licenses": [{"expression": expression}]}
    stated = (dist.metadata.get("License") or "").strip().partition("\n")[0]
    classes = [line for line in dist.metadata.get_all("Classifier") or () if "License ::" in line]
    names = [stated] if stated else [line.rpartition(" :: ")[2] for line in classes]
    return {"licenses": [{"license": {"name": name}} for name in names]} if names else {}


def _models() -> Iterator[dict[str, Any]]:
    for folder in packaged.own_models().values():
        described = json.loads((folder / "model.json").read_text(encoding="utf-8"))
        terms = described["terms"]
        sums = (folder / "SHA256SUMS").read_text(encoding="utf-8").splitlines()
        yield {
            "type": "machine-learning-model",
            "bom-ref": f"model:{described['name']}",
            "name": described["name"],
            "description": terms["summary"],
            "licenses": [{"expression": terms["licence"]}],
            "components": [_file(*line.split(maxsplit=1)) for line in sums],
        }


def _file(digest: str, name: str) -> dict[str, Any]:
    return {"type": "file", "name": name, "hashes": [{"alg": "SHA-256", "content": digest}]}


if __name__ == "__main__":
    sys.stdout.write(json.dumps(bill(), indent=1) + "\n")
