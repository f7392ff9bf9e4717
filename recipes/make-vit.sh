#!/usr/bin/env bash
# Makes a model like the one in the package, in one command: train, fit, heads, fit again, dev figures.
#
#     recipes/make-vit.sh [OUT]          OUT: models/vit
#
# It needs the data sets of docs/data-sets.md, DINOv2's weights (docs/training.md, "Pretrained weights"), the extras
# train and evaluate, and a GPU for training. Run it again after a stop: what is there is not made again. The package's
# vit-3 was made in three parts instead (docs/model-card.md); its figures may differ from those of this model.
set -euo pipefail
out=${1:-models/vit}
flickr=data/flickr8k_entities
mkdir -p "$out.parts" codes

regiontalk train recipes/vit.toml --resume --set run.steps=11000 --set schedule.backbone_from_epoch=0.8
[ -d "$out.parts/raw" ] || regiontalk export runs/vit "$out.parts/raw" --precision int8
[ -d "$out.parts/fitted" ] || regiontalk fit "$out.parts/raw" $flickr data/coco_objects data/coco118k -o "$out.parts/fitted" --only settings --only ranking --only calibration --only confidence

regiontalk data codes $flickr codes/flickr8k.npz --model "$out.parts/fitted"
regiontalk data codes $flickr codes/flickr8k-384.npz --model "$out.parts/fitted" --split train --size 384
regiontalk data codes data/coco118k codes/coco118k.npz --model "$out.parts/fitted" --split train
regiontalk train recipes/align-vit.toml --resume
regiontalk train recipes/sentences-vit.toml --resume

[ -d "$out.parts/heads" ] || regiontalk export "$out.parts/fitted" "$out.parts/heads" --add runs/align-vit --add runs/sentences-vit
[ -d "$out" ] || regiontalk fit "$out.parts/heads" $flickr data/coco_objects data/coco118k -o "$out" --only find --only alignment --only search

regiontalk predict "$out" $flickr --split dev -o "$out.parts/dev.jsonl"
regiontalk evaluate dense --truth $flickr --split dev --predictions "$out.parts/dev.jsonl" --record "$out.parts/record"
