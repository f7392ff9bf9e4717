#!/usr/bin/env bash
# Measures the model in the package on Flickr8k's test photos, and its speed, and records all of it in docs/runs; then
# writes docs/results.md. About a quarter of an hour on two CPU cores. Run it in the repository's root, with nothing
# uncommitted and nothing else running:
#
#     docs/record.sh [DATA]        DATA: the data set folder, data/flickr8k_entities unless said
#
# Every call is one more look at test, and is counted.
set -euo pipefail
data=${1:-data/flickr8k_entities}
model=src/regiontalk/weights
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

regiontalk predict $model $data --split test -o $work/regions.jsonl
regiontalk evaluate dense --truth $data --split test --predictions $work/regions.jsonl --record docs/runs/compact
regiontalk predict $model $data --split test --on-truths -o $work/true-boxes.jsonl
regiontalk evaluate dense --truth $data --split test --predictions $work/true-boxes.jsonl --record docs/runs/compact-true-boxes

regiontalk predict $model $data --split test --sentences --beam 7 -o $work/beam7.jsonl
regiontalk evaluate captions --truth $data --split test --predictions $work/beam7.jsonl --training $data --record docs/runs/sentences-attention-beam7
regiontalk predict $model $data --split test --sentences --beam 1 -o $work/beam1.jsonl
regiontalk evaluate captions --truth $data --split test --predictions $work/beam1.jsonl --training $data --record docs/runs/sentences-attention-beam1

regiontalk evaluate alignment $model --truth $data --record docs/runs/align-package --note "the head in the package; align-best is the mean of its run's five best checkpoints"
regiontalk evaluate grounding $model --truth $data --record docs/runs/align-best-grounding --note "the words learned from sentences, but the detector was taught phrases on boxes; that of align-coco-grounding was not"

for number in 1 2 3; do
    python docs/record.py docs/runs/speed-caption-$number speed-caption "a photo of 640×480, 100 proposals" benchmarks/caption.py
done
python docs/record.py docs/runs/speed-describe speed-describe "a photo of 640×480" benchmarks/describe.py
python docs/record.py docs/runs/speed-align speed-align "a photo of 640×480" benchmarks/align.py

python docs/results.py
