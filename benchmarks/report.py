"""What benchmarks share: `--json`, and one JSON object as the last line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any


def options_of(description: str | None) -> argparse.ArgumentParser:
    """To which a benchmark adds its own options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    return parser


def report(figures: Mapping[str, Any], as_json: bool) -> None:
    if not as_json:
        print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    print(json.dumps(figures))
