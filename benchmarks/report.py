"""What benchmarks share: `--json`, and one JSON object as the last line."""

from __future__ import annotations

import argparse
import json
from collections.abc import Mapping
from typing import Any

from regiontalk.io.provenance import cpu_name, instruction_sets


def options_of(description: str | None) -> argparse.ArgumentParser:
    """To which a benchmark adds its own options."""
    parser = argparse.ArgumentParser(
        description=description, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", action="store_true", help="print the JSON object alone")
    return parser


def report(figures: Mapping[str, Any], as_json: bool) -> None:
    """With the CPU and its instruction sets, on which every speed depends."""
    figures = {**figures, "cpu": cpu_name(), "cpu_instructions": instruction_sets()}
    if not as_json:
        print("\n".join(f"{name}: {value}" for name, value in figures.items()))
    print(json.dumps(figures))
