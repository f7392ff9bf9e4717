"""Runs a benchmark and keeps what it prints as a run for docs/results.py.

python docs/record.py docs/runs/speed-caption-1 speed-caption "a photo of 640×480"
benchmarks/caption.py

With --each KEY the benchmark prints several rows under that key, and each is a run: FOLDER-row.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path

from regiontalk.lab.runs import RunRecord, keep_metrics


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="where metrics.json goes")
    parser.add_argument("kind", help="which table it belongs to (docs/tables.py)")
    parser.add_argument("data", help="what it is measured on, in words")
    parser.add_argument("--each", metavar="KEY", help="a run for each entry under this key")
    parser.add_argument("benchmark", nargs=argparse.REMAINDER, help="the program and its options")
    options = parser.parse_args()
    record = RunRecord("benchmark")
    command = [*options.benchmark, "--json"]
    record.values["command"] = " ".join(["python", *command])
    done = subprocess.run([sys.executable, *command], check=True, stdout=subprocess.PIPE, text=True)
    figures = json.loads(done.stdout.splitlines()[-1])
    device = figures.pop("device", None)
    if isinstance(device, str):
        record.values["device"] = device
    rows = (
        {f"-{name}": row for name, row in figures[options.each].items()}
        if options.each
        else {"": figures}
    )
    for ending, row in rows.items():
        folder = options.folder.with_name(options.folder.name + ending)
        keep_metrics(folder, options.kind, row, record, data=options.data)


if __name__ == "__main__":
    main()
