#!/usr/bin/env bash
# Trains everything behind the papers' tables on one GPU, and measures it (docs/record.sh), a part at a time:
#
#     recipes/papers.sh PART...
#
#     fcln     the paper's network as written, and with captions first, mosaics and other samples (70 minutes)
#     tables   DenseCap's tables 1 and 2: four systems, 300,800 photos each (47 minutes)
#     kff      K&FF's ladder, sentences and descriptions of regions, from a detector that knows names of objects alone
#     affine   affine regions against boxes
#     speed    the paper's network at 720×600 on a GPU and on a CPU
#
# Run it in the root of a clean checkout, whose commit the records then name; run a part again after a stop. Data sets and
# weights: docs/data-sets.md and docs/training.md, "Pretrained weights"; extras train, evaluate, parse and edgeboxes.
# The comments "Choose" say what is chosen on dev photos before the next lines run: FCLN, RATE, PLACE_WEIGHT and BETA name
# the choices. Times are of an H200 (387 photos per second; 106 with three loading processes).
set -euo pipefail
flickr=data/flickr8k_entities
fcln=${FCLN:-fcln-written fcln-mosaics}
rate=${RATE:-1e-3}
export BETA=${BETA:-0.1377} PLACE_WEIGHT=${PLACE_WEIGHT:-0.1147} DEVICE=${DEVICE:-cuda}

train_fcln() {
    regiontalk train recipes/fcln-written.toml --set run.evaluate_every=1150 --resume
    for name in captions mosaics balanced; do
        regiontalk train recipes/fcln-$name.toml --resume
    done
    # Choose FCLN by the dev figures of runs/NAME/log.jsonl.
    FCLN=$fcln docs/record.sh fcln
}

train_tables() {
    regiontalk data proposals edgeboxes $flickr proposals/edgeboxes.jsonl.gz
    for name in rpn full-image region-rnn edgeboxes fcln; do
        regiontalk train recipes/table1-$name.toml --set run.workers=15 --resume
    done
    regiontalk data proposals runs/table1-rpn $flickr proposals/rpn.jsonl.gz --split test
    docs/record.sh table1 table2
    regiontalk predict runs/table1-region-rnn $flickr --split dev --regions truth -o runs/region-rnn-captions.jsonl
    regiontalk evaluate diversity --truth $flickr --split dev --predictions runs/region-rnn-captions.jsonl --record docs/runs/diversity-region-rnn
    python docs/record.py --each rows docs/runs/speed-table1-gpu speed-table1 "a photo of 720×600" benchmarks/table1.py --size 720 600 --device cuda
}

train_kff() {
    regiontalk train recipes/vit-coco.toml --resume
    [ -d models/vit-coco ] || regiontalk export runs/vit-coco models/vit-coco
    regiontalk data codes $flickr codes/flickr8k.npz --model models/vit-coco --surroundings
    regiontalk data codes data/coco118k_5000 codes/coco.npz --model models/vit-coco
    # Their five best checkpoints were the last five, so: until dev stops rising.
    longer="--set run.steps=9000 --set run.evaluate_every=450 --resume"
    for name in brnn deptree defrag; do
        regiontalk train recipes/align-$name.toml $longer
        for some in 3e-4 1e-3 3e-3; do
            regiontalk train recipes/align-$name-sgd.toml -o runs/align-$name-sgd-$some --set optimizer.rate=$some --set schedule.warmup=900 $longer
        done
        # Choose RATE on dev. docs/record.sh reads the chosen runs by these names.
        ln -sfn align-$name-sgd-$rate runs/align-$name-sgd
    done
    regiontalk train recipes/align-best.toml -o runs/align-weak --set 'data=[{path="data/flickr8k_entities",codes="codes/flickr8k.npz"}]' $longer
    for name in brnn best; do
        regiontalk train recipes/align-$name.toml -o runs/align-coco-$name --set 'data=[{path="data/coco118k_5000",codes="codes/coco.npz"}]' $longer
    done
    # Choose PLACE_WEIGHT and BETA for runs/align-brnn on 150 dev photos (docs/sentences.md).
    regiontalk data snippets $flickr codes/flickr8k.npz codes/snippets.jsonl --alignment runs/align-brnn --beta $BETA --place-weight $PLACE_WEIGHT
    for name in sentences-rnn sentences-regions sentences-regions-multiplicative sentences-regions-views; do
        regiontalk train recipes/$name.toml --resume
    done
    regiontalk train recipes/joint.toml --set snippets.beta=$BETA --set snippets.place_weight=$PLACE_WEIGHT --resume
    regiontalk train recipes/sentences-rnn-rmsprop.toml --set run.steps=9600 --resume
    docs/record.sh weak nearest-neighbour coco
}

train_affine() {
    regiontalk train recipes/compact-affine.toml --resume
    regiontalk train recipes/compact-affine.toml -o runs/compact-boxes --set net.recognition.affine=false --resume
    docs/record.sh affine
}

measure_speed() {
    python docs/record.py docs/runs/speed-paper speed-paper "a made-up photo of 720×600, 300 proposals" benchmarks/predict_fcln.py recipes/fcln-paper.toml --size 720 600
}

[ $# -gt 0 ] || { echo "usage: recipes/papers.sh PART... (fcln, tables, kff, affine, speed)" >&2; exit 2; }
for part in "$@"; do
    case $part in
        fcln | tables | kff | affine) train_$part ;;
        speed) measure_speed ;;
        *) echo "papers.sh: no part $part" >&2; exit 2 ;;
    esac
done
