#!/usr/bin/env bash
# Measures what can be measured on two CPU cores, records it in docs/runs, and writes docs/results.md. Run it in the
# repository's root, with nothing uncommitted and nothing else running:
#
#     docs/record.sh [PART...]
#
#     package            the model in the package on Flickr8k's test photos: regions, sentences, alignments (15 minutes)
#     everyday           the same on the COCO photos that are held out for testing (20 minutes)
#     names              whether it names the objects of COCO's dev photos, as they are and small (3 minutes)
#     teach              words taught with a few examples (20 minutes; NAMES must be there: docs/data-sets.md)
#     fast               the package's fast model: regions, names, sentences, alignments, speed (25 minutes)
#     find               phrases found on its regions, photos by search, and DenseCap's table 2 with 600 queries (130 minutes)
#     benchmarks         COCO's AP, POPE, cgF1, CHAIR, diversity, context and shown captions on dev photos (30 minutes)
#     nearest-neighbour  K&FF's retrieval baseline on its codes (20 minutes)
#     weak               the nets that learned from sentences alone: tables 1, 2 and 3, grounding, vector lengths
#                        (without training: DETECTOR, codes/flickr8k.npz by it and the runs must be there:
#                        docs/model-log.md)
#     fcln               the paper's network (the runs that FCLN names must be there; hours on a CPU without DEVICE=cuda)
#     affine             affine regions and boxes (runs/compact-affine and runs/compact-boxes must be there)
#     coco               COCO's photos by sentences, 1,000 and 5,000 (RANKING_CODES and runs/align-coco-* must be there:
#                        docs/alignment.md)
#     precisions         a detector in every precision of its weights (CHECKPOINT must be there; 10 minutes)
#     suppression        learned suppression against NMS and the ranking, on dev photos (10 minutes)
#     table1             DenseCap's table 1: every system on every source of regions (runs/table1-* and proposals/*.jsonl.gz
#                        must be there: docs/evaluation.md; hours on a CPU without DEVICE=cuda)
#     table2             DenseCap's table 2 of the same systems, with the same files
#     speed              benchmarks (5 minutes)
#     scale              Ray on 2,000 photos, and 1 million vectors in PostgreSQL (INDEX must be there: the folder of an
#                        index of 1,000 photos or more; 50 minutes)
#
# Without PART: package, names and speed. DATA, OBJECTS, COCO, NAMES, DETECTOR, CODES, RANKING_CODES, CHECKPOINT, INDEX
# and FCLN name other places than those below. BETA and PLACE_WEIGHT belong to runs/align-brnn, WEAK_PLACE_WEIGHT to
# runs/align-weak (docs/sentences.md).
# Every call of a part that reads test photos is one more look at test, and is counted.
set -euo pipefail
data=${DATA:-data/flickr8k_entities}
objects=${OBJECTS:-data/coco_objects}
coco=${COCO:-data/coco118k}
names=${NAMES:-data/names}
detector=${DETECTOR:-models/vit-coco}
codes=${CODES:-codes/package.npz}
ranking_codes=${RANKING_CODES:-codes/coco.npz}
device=${DEVICE:-auto}
checkpoint=${CHECKPOINT:-runs/compact-sentences}
index=${INDEX:-index}
fcln=${FCLN:-fcln-written fcln-mosaics}
beta=${BETA:-0.1377}
place_weight=${PLACE_WEIGHT:-0.1147}
weak_place_weight=${WEAK_PLACE_WEIGHT:-0.0678}
model=src/regiontalk/models/weights
words="people, person, dog, cat, car, bus, train, umbrella, pizza, giraffe, horse, boat, chair, bird, bicycle, laptop"
taught="the words learned from sentences, but the detector was taught phrases on boxes; that of align-coco-grounding was not"
work=$(mktemp -d)
trap 'rm -r "$work"' EXIT

record_package() {
    regiontalk predict $model $data --split test -o $work/regions.jsonl
    regiontalk evaluate dense --truth $data --split test --predictions $work/regions.jsonl --record docs/runs/vit
    regiontalk evaluate calibration --truth $data --split test --predictions $work/regions.jsonl --record docs/runs/calibration-vit
    regiontalk predict $model $data --split test --regions truth -o $work/true-boxes.jsonl
    regiontalk evaluate dense --truth $data --split test --predictions $work/true-boxes.jsonl --record docs/runs/vit-true-boxes
    regiontalk predict $model $data --split test --sentences --beam 7 -o $work/beam7.jsonl
    regiontalk evaluate captions --truth $data --split test --predictions $work/beam7.jsonl --training $data --record docs/runs/sentences-vit-beam7
    regiontalk predict $model $data --split test --sentences --beam 1 -o $work/beam1.jsonl
    regiontalk evaluate captions --truth $data --split test --predictions $work/beam1.jsonl --training $data --record docs/runs/sentences-vit-beam1
    regiontalk evaluate alignment $model --truth $data --record docs/runs/align-vit
    regiontalk evaluate grounding $model --truth $data --record docs/runs/align-vit-grounding --note "$taught"
}

record_everyday() {
    regiontalk predict $model $coco --split test -o $work/regions.jsonl
    regiontalk evaluate dense --truth $coco --split test --predictions $work/regions.jsonl --record docs/runs/dense-vit-coco --note "the truth: object names and some of Visual Genome's phrases"
    regiontalk evaluate calibration --truth $coco --split test --predictions $work/regions.jsonl --record docs/runs/calibration-vit-coco
    regiontalk evaluate names --model $model --data $coco --split test --record docs/runs/names-vit-coco
    regiontalk evaluate search $model --truth $coco --split test --words "$words" --record docs/runs/search-words-vit-coco
    regiontalk evaluate alignment $model --truth $coco --record docs/runs/align-vit-coco
    regiontalk predict $model $coco --split test --sentences --beam 7 -o $work/beam7.jsonl
    regiontalk evaluate captions --truth $coco --split test --predictions $work/beam7.jsonl --training $coco --record docs/runs/sentences-vit-coco --note "two sentences a photo to compare with, not five"
}

record_names() {
    regiontalk evaluate names --model $model --data $objects --split dev --record docs/runs/names-vit --note "photos with 640 pixels"
    regiontalk evaluate names --model $model --data $objects --split dev --longest-side 240 --record docs/runs/names-vit-240 --note "the same photos, shrunk to 240 pixels"
}

record_teach() {
    regiontalk evaluate teach $model --truth $names --names recipes/splits/held-out-names.txt --everyday $coco --fit-on $objects --record docs/runs/teach-vit
    python docs/record.py docs/runs/speed-teach speed-teach "100 words with 10 examples each; an index of 10,000 made-up photos" benchmarks/teach.py
}

record_fast() {
    regiontalk predict fast $data --split test -o $work/regions.jsonl
    regiontalk evaluate dense --truth $data --split test --predictions $work/regions.jsonl --record docs/runs/fast
    regiontalk evaluate calibration --truth $data --split test --predictions $work/regions.jsonl --record docs/runs/calibration-fast
    regiontalk predict fast $data --split test --regions truth -o $work/true-boxes.jsonl
    regiontalk evaluate dense --truth $data --split test --predictions $work/true-boxes.jsonl --record docs/runs/fast-true-boxes
    regiontalk evaluate names --model fast --data $objects --split dev --record docs/runs/names-fast
    regiontalk evaluate names --model fast --data $coco --split test --record docs/runs/names-fast-coco
    regiontalk predict fast $data --split test --sentences --beam 7 -o $work/beam7.jsonl
    regiontalk evaluate captions --truth $data --split test --predictions $work/beam7.jsonl --training $data --record docs/runs/sentences-fast-beam7
    regiontalk evaluate alignment fast --truth $data --record docs/runs/align-fast
    regiontalk evaluate grounding fast --truth $data --record docs/runs/align-fast-grounding --note "$taught"
    python docs/record.py docs/runs/speed-caption-fast speed-caption "a photo of 640×480" benchmarks/caption.py --model fast
}

record_find() {
    regiontalk evaluate find $model --truth $data --split test --record docs/runs/find-vit
    regiontalk evaluate search $model --truth $data --split test --record docs/runs/search-vit
    draw_queries
    regiontalk evaluate retrieval --model $model --truth $data --split test --queries $work/queries.json --by likelihood --record docs/runs/retrieval-vit-likelihood
    regiontalk evaluate retrieval --model $model --truth $data --split test --queries $work/queries.json --by alignment --record docs/runs/retrieval-vit-alignment
    regiontalk evaluate retrieval --model $model --truth $data --split test --queries $work/queries.json --by both --record docs/runs/retrieval-vit-both
    regiontalk evaluate retrieval --model $model --truth $data --split test --queries $work/queries.json --regions whole --record docs/runs/retrieval-vit-whole --note "the captions' model on whole photos, which it was not trained for"
}

record_benchmarks() {
    regiontalk evaluate objects $model --truth $objects --split dev --record docs/runs/objects-vit
    regiontalk evaluate context $model --truth $objects --split dev --record docs/runs/context-vit
    regiontalk evaluate shown $model --truth $data --split dev --record docs/runs/shown-vit
    regiontalk evaluate search $model --truth $objects --split dev --words "$words" --record docs/runs/search-words-vit
    regiontalk predict $model $objects --split dev --sentences -o $work/coco-said.jsonl
    regiontalk evaluate chair --truth $objects --split dev --predictions $work/coco-said.jsonl --record docs/runs/chair-vit-coco
    regiontalk evaluate diversity --truth $objects --split dev --predictions $work/coco-said.jsonl --training $data --record docs/runs/diversity-vit-coco
    regiontalk predict $model $data --split dev --sentences -o $work/flickr8k-said.jsonl
    regiontalk evaluate chair --truth $data --split dev --predictions $work/flickr8k-said.jsonl --record docs/runs/chair-vit-flickr8k
    regiontalk evaluate diversity --truth $data --split dev --predictions $work/flickr8k-said.jsonl --training $data --record docs/runs/diversity-vit-flickr8k
}

record_nearest_neighbour() {
    make_codes
    regiontalk baseline nearest-neighbour $data $codes --split test -o $work/neighbours.jsonl
    regiontalk evaluate captions --truth $data --split test --predictions $work/neighbours.jsonl --training $data --record docs/runs/sentences-nearest-neighbour --note "L2 on codes and appearances of whole photos"
}

record_weak() {
    note="the detector (recipes/vit-coco.toml) knows COCO's object names alone: no phrase on a box, no sentence"
    weak=codes/flickr8k.npz
    truths=$work/true-boxes.npz
    regiontalk data codes $data $truths --model $detector --split test --on-truths --surroundings
    for name in brnn deptree defrag brnn-sgd deptree-sgd defrag-sgd weak; do
        regiontalk evaluate alignment runs/align-$name --codes $weak --truth $data --record docs/runs/align-$name --note "$note"
    done
    chosen="$note; the place weight was chosen on 150 dev photos"
    regiontalk evaluate grounding runs/align-brnn --codes $weak --truth $data --place-weight $place_weight --record docs/runs/align-brnn-grounding --note "$chosen"
    regiontalk evaluate grounding runs/align-weak --codes $weak --truth $data --place-weight $weak_place_weight --record docs/runs/align-weak-grounding --note "$chosen"
    regiontalk baseline region-ranking $data $weak --split test --truths $truths --alignment runs/align-brnn --beta $beta --place-weight $place_weight -o $work/ranking.jsonl
    regiontalk evaluate regions --truth $data --split test --predictions $work/ranking.jsonl --record docs/runs/sentences-regions-ranking --note "$note"
    for name in sentences-regions sentences-regions-multiplicative sentences-regions-views joint sentences-rnn; do
        regiontalk predict runs/$name $data --split test --codes $truths --regions truth --beam 1 -o $work/$name.jsonl
        case $name in joint) to=sentences-regions-joint ;; sentences-rnn) to=sentences-regions-full-frame ;; *) to=$name ;; esac
        regiontalk evaluate regions --truth $data --split test --predictions $work/$name.jsonl --record docs/runs/$to --note "$note"
    done
    for name in sentences-rnn-beam1 sentences-rnn-beam7 sentences-rnn-rmsprop-beam7; do
        regiontalk predict runs/${name%-beam?} $data --split test --codes $weak --beam ${name: -1} -o $work/photos-$name.jsonl
        regiontalk evaluate captions --truth $data --split test --predictions $work/photos-$name.jsonl --training $data --record docs/runs/$name --note "$note"
    done
    regiontalk evaluate vector-lengths runs/align-brnn --codes $weak --truth $data -o docs/word-lengths.svg --record docs/runs/vector-lengths-brnn
}

record_fcln() {
    for name in $fcln; do
        measure_dense runs/$name $name
        regiontalk predict runs/$name $data --split test --regions truth --device $device -o $work/$name-true-boxes.jsonl
        regiontalk evaluate dense --truth $data --split test --predictions $work/$name-true-boxes.jsonl --record docs/runs/$name-true-boxes
    done
}

record_affine() {
    for name in compact-affine compact-boxes; do
        measure_dense runs/$name $name
    done
}

# measure_dense MODEL NAME: on its own boxes.
measure_dense() {
    regiontalk predict $1 $data --split test --device $device -o $work/$2.jsonl
    regiontalk evaluate dense --truth $data --split test --predictions $work/$2.jsonl --record docs/runs/$2
}

make_codes() {
    [ -f $codes ] || regiontalk data codes $data $codes --model $model
}

record_precisions() {
    python docs/record.py --each precisions docs/runs/precision precision "flickr8k_entities, dev (200 photos)" benchmarks/precisions.py $checkpoint $data --photos 200
}

record_suppression() {
    python docs/record.py --each rows docs/runs/suppression suppression "flickr8k_entities, dev (300 photos)" benchmarks/suppression.py $data --photos 300
}

record_table1() {
    for system in full-image region-rnn edgeboxes fcln; do
        for source in edgeboxes rpn own truth; do
            case $source in edgeboxes | rpn) regions=proposals/$source.jsonl.gz ;; *) regions=$source ;; esac
            [ $source = own ] && [ $system != fcln ] && continue
            regiontalk predict runs/table1-$system $data --split test --regions $regions --device $device -o $work/$system-$source.jsonl
            regiontalk evaluate dense --truth $data --split test --predictions $work/$system-$source.jsonl --record docs/runs/table1-$system-$source
        done
    done
    python docs/record.py --each rows docs/runs/speed-table1-cpu speed-table1 "a photo of 720×600" benchmarks/table1.py --size 720 600 --device cpu
}

draw_queries() {
    regiontalk evaluate queries --truth $data --split test --count 600 > $work/queries.json
}

record_table2() {
    draw_queries
    regiontalk evaluate retrieval --model runs/table1-full-image --truth $data --split test --queries $work/queries.json --regions whole --device $device --record docs/runs/retrieval-full-image --note "Full-image RNN on whole photos"
    regiontalk evaluate retrieval --model runs/table1-full-image --truth $data --split test --queries $work/queries.json --regions proposals/edgeboxes.jsonl.gz --device $device --record docs/runs/retrieval-full-image-edgeboxes --note "Full-image RNN on EdgeBoxes"
    regiontalk evaluate retrieval --model runs/table1-region-rnn --truth $data --split test --queries $work/queries.json --regions proposals/edgeboxes.jsonl.gz --device $device --record docs/runs/retrieval-region-rnn-edgeboxes --note "Region RNN on EdgeBoxes"
    regiontalk evaluate retrieval --model runs/table1-fcln --truth $data --split test --queries $work/queries.json --device $device --record docs/runs/retrieval-fcln --note "FCLN"
}

record_coco() {
    note="held-out photos of coco118k by our own rule, about 2 sentences each, not Karpathy's split; the detector (recipes/vit-coco.toml) knows COCO's object names alone"
    for name in align-coco-brnn align-coco-best; do
        regiontalk evaluate alignment runs/$name --codes $ranking_codes --truth $coco --record docs/runs/$name-1000 --note "$note"
        regiontalk evaluate alignment runs/$name --codes $ranking_codes --truth data/coco118k_5000 --record docs/runs/$name-5000 --note "$note"
    done
}

record_speed() {
    for number in 1 2 3; do
        python docs/record.py docs/runs/speed-caption-$number speed-caption "a photo of 640×480" benchmarks/caption.py
    done
    python docs/record.py docs/runs/speed-describe speed-describe "a photo of 640×480" benchmarks/describe.py
    python docs/record.py docs/runs/speed-align speed-align "a photo of 640×480" benchmarks/align.py
    python docs/record.py docs/runs/speed-page speed-page "330 sheets of example photos" benchmarks/page.py
}

record_scale() {
    python docs/record.py docs/runs/speed-cluster speed-cluster "2,000 photos" benchmarks/cluster.py --photos 2000 --turns 1
    python docs/record.py docs/runs/speed-postgres speed-postgres "50,000 photos, made up from 1,000 of Flickr8k's" benchmarks/postgres.py --photos 50000 --queries 150 --index $index
}

for part in "${@:-package names speed}"; do
    for name in $part; do
        "record_${name//-/_}"
    done
done
python docs/results.py
