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
PATH="$place/venv/bin:$PATH" "$place/venv/bin/python" "$OLDPWD/tests/installed_smoke.py" "$OLDPWD/examples/photos"
cd "$OLDPWD"
# Only files whose fixtures need no torch.
"$place/venv/bin/python" -m pytest tests/models/test_folder.py tests/models/test_terms.py tests/models/test_name_table.py \
    tests/io/test_files.py tests/io/test_json_stream.py tests/io/test_typed.py \
    tests/images/test_colours.py tests/images/test_paths.py tests/images/test_avif_limits.py tests/images/test_webp.py \
    tests/inference/test_captions.py tests/inference/test_confidence.py tests/inference/test_regions.py \
    tests/inference/test_decoding.py tests/inference/test_calibration.py tests/inference/test_detect.py \
    tests/inference/test_rank.py tests/inference/test_naming.py tests/language \
    tests/search/sqlite tests/search/test_store.py tests/serve/test_workers.py tests/serve/test_settings.py \
    tests/serve/test_protocol.py::test_a_head_that_does_not_arrive_is_given_up \
    tests/serve/test_protocol.py::test_a_second_head_is_given_up_too \
    tests/serve/test_protocol.py::test_the_longest_waiting_connection_makes_room \
    tests/serve/test_protocol.py::test_an_answer_that_nobody_reads_ends_its_connection
