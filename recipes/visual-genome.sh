#!/usr/bin/env bash
# DenseCap's table 1 on Visual Genome, in one command: unpack, prepare, train the paper's network and ours, predict the
# 5,000 test photos, and evaluate with both protocols.
#
#     recipes/visual-genome.sh DOWNLOADS WORK
#
# DOWNLOADS: a folder with region_descriptions.json.zip, image_data.json.zip, images.zip and images2.zip of Visual Genome,
# and densecap_splits.json of DenseCap's released code. WORK: a folder for all that is made. Run it again after a stop:
# what is done is not done again, and training resumes.
#
# It needs the extras train and evaluate, the backbones' weights (docs/training.md, "Pretrained weights"), and a GPU.
# docs/data-sets.md says how long it takes. Set PAPER and OURS to train other recipes; their first data set is replaced.
# SOURCES="own truth edgeboxes" adds the column of EdgeBoxes (extra edgeboxes).
set -euo pipefail
downloads=${1:?DOWNLOADS is missing}
work=${2:?WORK is missing}
paper=${PAPER:-recipes/visual-genome-paper.toml}
ours=${OURS:-recipes/visual-genome-ours.toml}
sources=${SOURCES:-own truth}
data=$work/data
mkdir -p "$work/source" "$work/done" "$work/record"

# once NAME COMMAND...: runs the command, unless it has succeeded before.
once() {
    local name=$1
    shift
    [ -e "$work/done/$name" ] && return
    echo "visual-genome: $name" >&2
    "$@"
    touch "$work/done/$name"
}

for file in region_descriptions.json image_data.json images images2; do
    once "unpack-$file" python -m zipfile -e "$downloads/$file.zip" "$work/source"
done
once prepare regiontalk data prepare visual-genome "$work/source" "$data" --split-file "$downloads/densecap_splits.json" --force
once train-paper regiontalk train "$paper" -o "$work/runs/paper" --set data.0.path="$data" --resume
once train-ours regiontalk train "$ours" -o "$work/runs/ours" --set data.0.path="$data" --resume

for source in $sources; do
    for system in paper ours; do
        said=$work/$system-$source.jsonl
        once "predict-$system-$source" regiontalk predict "$work/runs/$system" "$data" --split test --regions "$source" -o "$said"
        for protocol in densecap joint; do
            once "evaluate-$system-$source-$protocol" regiontalk evaluate dense --truth "$data" --split test --predictions "$said" \
                --protocol $protocol --record "$work/record/$system-$source-$protocol"
        done
    done
done

python - "$work/record" <<'TABLE'
import json, sys
from pathlib import Path

print(f"{'system-regions-protocol':30} {'mAP':>6} {'METEOR >= .1':>13} {'METEOR':>7}")
for path in sorted(Path(sys.argv[1]).glob("*/metrics.json")):
    run = json.loads(path.read_bytes())
    print(f"{path.parent.name:30} {100 * run['map']:6.2f} {100 * run['map_strict']:13.2f} {run['meteor']:7.3f}")
TABLE
