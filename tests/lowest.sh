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
without_torch=$(grep -lE '^(import|from) torch|pytest.importorskip' -r tests/inference tests/images \
    tests/io tests/language tests/models | sed 's/^/--ignore=/')
"$place/venv/bin/python" -m pytest $without_torch tests/models/test_folder.py tests/models/test_terms.py \
    tests/models/test_onnx_runtime.py tests/images tests/io tests/inference tests/language \
    tests/cli/test_doctor.py tests/serve/test_guards.py tests/serve/test_inputs.py
