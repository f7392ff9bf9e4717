#!/usr/bin/env bash
# Installs the lowest versions that pyproject.toml allows and runs the base part of the suite.
#   tests/lowest.sh [PYTHON]
set -euo pipefail
cd "$(dirname "$0")/.."
place=$(mktemp -d)
trap 'rm -rf "$place"' EXIT
"${1:-python3}" -m venv "$place/venv"
"$place/venv/bin/pip" install -q -c lowest-versions.txt ".[serve,heif]" pytest pytest-timeout hypothesis
cd "$place"  # so that the installed package is tested, not the tree
cat > smoke.py <<'SMOKE'
"""Captions from the installed package alone, and METEOR left out where its extra is missing."""
import json
import subprocess
import sys
from pathlib import Path
import regiontalk
assert "site-packages" in regiontalk.__file__, regiontalk.__file__
photos = Path(sys.argv[1]) / "examples" / "photos"
found = subprocess.run(["regiontalk", "caption", str(photos), "--json"], check=True, capture_output=True)
assert found.stdout.count(b'"caption"') > 0
region = {"xyxy": [0, 0, 40, 40], "phrase": "a dog"}
truth = {"image": "a.jpg", "width": 100, "height": 80, "split": "test", "regions": [region]}
guess = {"xyxy": [0, 0, 40, 40], "score": 1.0, "caption": "a dog"}
guesses = {"path": "a.jpg", "width": 100, "height": 80, "regions": [guess]}
Path("data").mkdir()
Path("data/annotations.jsonl").write_text(json.dumps(truth) + "\n")
Path("guesses.jsonl").write_text(json.dumps(guesses) + "\n")
evaluate = ["regiontalk", "evaluate", "dense", "--truth", "data", "--predictions", "guesses.jsonl"]
subprocess.run([*evaluate, "--without", "meteor"], check=True)
SMOKE
PATH="$place/venv/bin:$PATH" "$place/venv/bin/python" smoke.py "$OLDPWD"
cd "$OLDPWD"
# Only files whose fixtures need no torch.
"$place/venv/bin/python" -m pytest tests/models/test_folder.py tests/models/test_terms.py tests/models/test_name_table.py \
    tests/io/test_files.py tests/io/test_json_stream.py tests/io/test_typed.py \
    tests/images/test_colours.py tests/images/test_paths.py tests/images/test_avif_limits.py tests/images/test_webp.py \
    tests/inference/test_captions.py tests/inference/test_confidence.py tests/inference/test_regions.py \
    tests/inference/test_decoding.py tests/inference/test_calibration.py tests/inference/test_detect.py \
    tests/inference/test_rank.py tests/inference/test_naming.py tests/language \
    tests/search/sqlite tests/search/test_store.py tests/serve/test_workers.py tests/serve/test_settings.py
