"""The tables of docs/results.md: which columns each kind of run has, and what to know first."""

from __future__ import annotations

from columns import RANKS, Column, Section, milliseconds, rank_columns, sentence_columns

PACKAGE = ("vit", "fast")
"""Parts of the names of runs of the models in the package; they come first."""

FORMER = dict.fromkeys(
    (
        "align-best-grounding",
        "align-package",
        "compact",
        "compact-true-boxes",
        "names-package",
        "sentences-attention-beam1",
        "sentences-attention-beam7",
    ),
    "compact-3, the model in the package up to 0.2.0",
)
"""Remarks on runs that are older than the model in the package."""


MAP, STRICT = Column("mAP", ("map",)), Column("METEOR ≥ .1", ("map_strict",))
METEOR = Column("METEOR", ("meteor",), 1, 3)
GROUNDED = Column("IoU ≥ .5", ("accuracy",), digits=1)
TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")

DENSECAP = "DenseCap: regions and their captions"
KFF = "Karpathy & Fei-Fei: sentences and alignments"
SPEED = "Speed, size and checks"

SECTIONS = (
    Section(
        "dense",
        DENSECAP,
        "Dense captioning",
        "DenseCap table 1, on the model's own boxes: mAP in percent over 5 IoU × 6 METEOR thresholds. “METEOR ≥ .1” "
        "leaves out the two thresholds that a shared “a” passes. METEOR: mean over all captions against every "
        "reference of their photo.",
        (MAP, STRICT, Column("boxes alone", ("detection_map",)), METEOR),
        published="dense",
        published_columns=(
            Column("mAP on EdgeBoxes", ("map_edge_boxes",)),
            Column("mAP on RPN or own boxes", ("map",)),
            Column("METEOR on these", ("meteor",), 1, 3),
            Column("mAP on true boxes", ("map_true_boxes",)),
        ),
    ),
    Section(
        "dense",
        DENSECAP,
        "Dense captioning on true boxes",
        "The same with the places given. The reference rows are computed from the same truth: the best caption that is "
        "said of everything, and one person's phrases judged by the others'.",
        (MAP, STRICT, METEOR),
        true_boxes=True,
        references=True,
    ),
    Section(
        "dense",
        DENSECAP,
        "How regions are sampled",
        "What each departure from the paper's training does to one small network ([recipe](../recipes/sampling.toml), "
        "[commands](training.md#what-each-departure-does)): 19,200 photos each, everything else the same. *written*: "
        "as DenseCap 3 says. *no-gradient*: none through the boxes' coordinates. *anchors*: the localization layer "
        "learns from anchors, not from predicted boxes. *balanced*: as many regions of each true one. *weights*: all "
        "losses weigh 1. *release*: as the released code. *ours*: as the package's model.",
        (MAP, STRICT, Column("boxes alone", ("detection_map",)), METEOR),
        hides_dev=False,
        series="sampling-",
    ),
    Section(
        "dense",
        DENSECAP,
        "How regions are sampled: true boxes",
        "The same networks with the places given.",
        (MAP, STRICT, METEOR),
        true_boxes=True,
        hides_dev=False,
        series="sampling-",
    ),
    Section(
        "suppression",
        DENSECAP,
        "Learned suppression",
        "Which regions are kept, and in which order (`benchmarks/suppression.py`): NMS of that IoU with the model's "
        "score; NMS with the ranking that the package has; a net in place of the strict NMS, after one of that IoU, "
        "which DenseCap leaves to future work. Cross-validated on dev photos, in percent.",
        (
            MAP,
            STRICT,
            Column("boxes alone", ("detection_map",)),
            Column("regions a photo", ("regions_per_photo",), 1, 1),
        ),
        hides_dev=False,
    ),
    Section(
        "names",
        DENSECAP,
        "Objects named",
        "Captions of the boxes of COCO's objects, of 32 × 32 original pixels or more: the share that names the object, "
        "in percent ([phrases.md](phrases.md)).",
        (
            Column("right", ("right",), 1, 1),
            Column("without people", ("right_without_people",), 1, 1),
            Column("mean over classes", ("class_mean",), 1, 1),
            Column("objects", ("objects",), 1, 0),
        ),
        hides_dev=False,
    ),
    Section(
        "judged",
        DENSECAP,
        "Captions judged by eye",
        "In percent ([how](evaluation.md#judging-by-eye)).",
        (
            *(Column(name, (name,), 1, 1) for name in ("right", "half", "wrong")),
            Column("captions", ("captions",), 1, 0),
        ),
    ),
    Section(
        "retrieval",
        DENSECAP,
        "Photos and regions from four captions",
        "DenseCap table 2, in percent, but for median rank and median IoU.",
        (
            *(Column(f"R@{cut}", (f"r{cut}",), 1, 1) for cut in (1, 5, 10)),
            Column("med. rank", ("median_rank",), 1, 1),
            *(Column(f"IoU@{cut}", (f"iou@{cut}",), 1, 1) for cut in (0.1, 0.3, 0.5)),
            Column("med. IoU", ("median_iou",), 1, 3),
        ),
        published="retrieval",
    ),
    Section(
        "find",
        DENSECAP,
        "Phrases found in photos",
        "Of people's phrases, the share whose best region by `regiontalk find` has an IoU ≥ 0.5 with their box; the "
        "share that is said to be there at all; and the share of other photos' phrases that is said not to be. In "
        "percent.",
        (
            Column("best region right", ("accuracy",), digits=1),
            Column("said to be there", ("found",), digits=1),
            Column("others': not there", ("not_there",), digits=1),
            Column("phrases", ("phrases",), 1, 0),
        ),
    ),
    Section(
        "proposals",
        DENSECAP,
        "Recall of proposals",
        "The share of true boxes that one of the best 100 or 300 proposals covers at an IoU, in percent.",
        tuple(
            Column(f"{count}, IoU ≥ {iou}", ("proposal_recall", count, iou), digits=1)
            for count in ("100", "300")
            for iou in ("0.3", "0.5", "0.7")
        ),
        hides_dev=False,
    ),
    Section(
        "captions",
        KFF,
        "One sentence a photo",
        "K&FF table 2, in percent (CIDEr × 100). “In training”: sentences that are word for word in the training data.",
        (*sentence_columns(), Column("in training", ("in_training",), digits=1)),
        published="captions",
        steps=True,
    ),
    Section(
        "ranking",
        KFF,
        "Images by sentences, sentences by images",
        "K&FF table 1: recall in percent and median rank, 1,000 photos and 5,000 sentences unless said. Figures of a "
        "run that kept its five best checkpoints on dev are their mean, as in the paper.",
        rank_columns(),
        published="ranking",
        steps=True,
    ),
    Section(
        "search",
        KFF,
        "Photos by `search`",
        "What `regiontalk search` answers to Flickr8k's 5,000 test sentences over an index of the 1,000 photos: recall "
        "in percent and median rank, with captions and likelihoods fused, and by vectors alone, as in the table above.",
        tuple(
            Column(f"{heading} {cut}", (key, rank), 1, 1)
            for key, heading in (("text_to_image", "fused"), ("by_vectors_alone", "vectors alone"))
            for rank, cut in zip(RANKS, ("R@1", "R@5", "R@10", "med. r"), strict=True)
        ),
    ),
    Section(
        "grounding",
        KFF,
        "Phrases on their regions",
        "Of the phrases of Flickr30k Entities, the share aligned with a region of IoU ≥ 0.5 with the true box, in "
        "percent, and the share whose region's centre lies in it (pointing). The columns from “random region” on need "
        "no words; “best there is” is the detector's limit.",
        (
            GROUNDED,
            Column("pointing", ("pointing",), digits=1),
            *(
                Column(heading, ("baselines", key, "accuracy"), digits=1)
                for heading, key in (
                    ("random region", "random region"),
                    ("centre box", "centre box"),
                    ("largest region", "largest region"),
                    ("whole photo", "whole photo"),
                    ("best there is", "best region there is"),
                )
            ),
        ),
    ),
    Section(
        "grounding",
        KFF,
        "Phrases on their regions, by type",
        "The share of IoU ≥ 0.5, in percent.",
        tuple(Column(name, ("types", name, "accuracy"), digits=1) for name in TYPES),
    ),
    Section(
        "regions",
        KFF,
        "Captions of given regions",
        "K&FF table 3, in percent (CIDEr × 100): what is said of boxes that people drew, by nets that learned from "
        "sentences of whole photos. A row's remark says what the detector knew whose codes they read.",
        sentence_columns(),
        published="regions",
        steps=True,
    ),
    Section(
        "alignment-settings",
        KFF,
        "Alignment settings side by side",
        "Short trainings of 600 steps that differ in one thing, ranked on 500 dev photos.",
        (
            Column("sum of recalls", ("recall_sum",), 1, 1),
            *(
                Column(f"{arrow} R@{cut}", (f"{key}_r{cut}",), 1, 1)
                for key, arrow in (("image_to_text", "image → sentence"), ("text_to_image", "sentence → image"))
                for cut in (1, 5, 10)
            ),
        ),
        hides_dev=False,
    ),
    Section(
        "speed-caption",
        SPEED,
        "Captioning a photo on two CPU cores",
        "`benchmarks/caption.py`, three times; peers in the same process. Milliseconds a photo.",
        (
            Column("ours", ("milliseconds", "ours", "photo"), 1, 1),
            Column("ours in eager torch", ("milliseconds", "torch", "photo"), 1, 1),
            Column("paper's network, ONNX Runtime", ("milliseconds", "paper", "photo"), 1, 1),
            Column("times the paper's speed", ("speedup_over_paper",), 1, 1),
            Column("model MB", ("model_mb",), 1, 1),
            Column("memory MB", ("memory_mb",), 1, 0),
            Column("cold start s", ("cold_process_seconds",), 1, 2),
            Column("`--help` CPU s", ("help_cpu_seconds",), 1, 2),
        ),
    ),
    Section(
        "speed-table1",
        SPEED,
        "The parts of DenseCap's table 1",
        "`benchmarks/table1.py`: milliseconds of a photo of 448 pixels, the systems in turns on one device; the number "
        "in the name is that of the proposals. Region RNN's crops go through the CNN one by one, as the paper's do, or "
        "100 at a time (“batched”). Weights are at random, so that captions are as long as they may be, and the FCLN's "
        "boxes suppress each other less than a trained one's: its RNN has more to say here than it would have.",
        (
            *milliseconds(
                proposals_ms="proposals", cnn_recognition_ms="CNN + recognition", rnn_ms="RNN", total_ms="in all"
            ),
            Column("times the FCLN's", ("times_fcln",), 1, 1),
        ),
        published="runtime",
    ),
    Section(
        "speed-describe",
        SPEED,
        "Describing a photo on two CPU cores",
        "`benchmarks/describe.py`, milliseconds a photo.",
        milliseconds(backbone_ms="backbone alone", beam_1_ms="beam 1", beam_7_ms="beam 7"),
    ),
    Section(
        "speed-align",
        SPEED,
        "Aligning a sentence on two CPU cores",
        "`benchmarks/align.py`, milliseconds a photo and sentence.",
        milliseconds(caption_ms="captioning it", align_ms="aligning", align_long_ms="a sentence of several windows"),
    ),
    Section(
        "large-photos",
        SPEED,
        "Large photos",
        "`benchmarks/large_photos.py`: a JPEG of 12 megapixels against the same photo at 640×480, in turns, "
        "milliseconds; the most memory of eight photos of 50 megapixels with `-j 2`. “Boxes within 1 %”: of the ten "
        "best boxes, how many lie where a full decode has them, against how many do when a single value of a single "
        "pixel is changed by one: in 8 bits, boxes are no more certain than that.",
        (
            *milliseconds(small_ms="640×480", large_ms="12 megapixels", progressive_ms="progressive"),
            Column("times the small one", ("large_over_small",), 1, 2),
            Column("boxes within 1 %", ("reduced_boxes_within_1_percent",), digits=0),
            Column("one value changed", ("one_value_changed_boxes_within_1_percent",), digits=0),
            *(
                Column(f"MB, {heading}", (f"memory_50_megapixels_{name}_j2_mb",), 1, 0)
                for name, heading in (("jpg", "JPEG"), ("png", "PNG"), ("webp", "WebP"), ("mixed", "mixed"))
            ),
        ),
    ),
    Section(
        "speed-search",
        SPEED,
        "Indexing and search",
        "`benchmarks/search.py`, 100,000 made-up photos of 20 regions: milliseconds of a query's scan, against the "
        "bare matrix product over the same vectors in memory; seconds of `regiontalk search` from start to answer "
        "with nothing in the disk's cache; the share of the ten best photos found, and of photos as good as the tenth "
        "to the 12 bits that are kept of a number; and, on real photos, how fast they are indexed against captioned. "
        "“Equal”: an index made by runs that were killed is that of one that was not.",
        (
            Column("query ms", ("points", "100000", "query_ms"), 1, 0),
            Column("times the product", ("points", "100000", "query_over_product"), 1, 2),
            Column("command s", ("points", "100000", "search_command_s"), 1, 2),
            Column("recall@10", ("points", "100000", "recall_at_10"), 1, 3),
            Column("with ties", ("points", "100000", "recall_at_10_with_ties"), 1, 3),
            Column("kB a photo", ("points", "100000", "kilobytes_a_photo"), 1, 1),
            Column("second run over 10,000, s", ("second_run_s",), 1, 2),
            Column("photos a second", ("photos_a_second",), 1, 1),
            Column("times captioning's rate", ("rate_over_caption",), 1, 2),
            Column("kills", ("killed",), 1, 0),
            Column("equal", ("equal_after_kills",), 1, 0),
        ),
    ),
    Section(
        "speed-serve",
        SPEED,
        "The server",
        "`benchmarks/serve.py`: milliseconds of a photo of 12 megapixels sent to an idle server, against captioning "
        "it; then 200 clients that send it all at once for a minute, and how long health takes meanwhile.",
        (
            *milliseconds(caption_ms="captioned", serve_ms="sent"),
            Column("times captioning", ("slower_than_caption",), 1, 2),
            Column("answered a second", ("answered_per_second",), 1, 1),
            *milliseconds(health_ms_median="health, median", health_ms_most="health, most"),
            Column("MB, first half", ("memory_mb_first_half",), 1, 0),
            Column("MB, second half", ("memory_mb_second_half",), 1, 0),
        ),
    ),
    Section(
        "speed-cluster",
        SPEED,
        "Ray against threads",
        "`benchmarks/cluster.py`: `caption --engine ray` with two workers against `caption -j 2`, the same bytes out. "
        "Seconds from start to end.",
        (
            Column("photos", ("photos",), 1, 0),
            Column("threads s", ("plain_s",), 1, 1),
            Column("Ray s", ("ray_s",), 1, 1),
            Column("Ray's rate over threads'", ("rate_over_plain",), 1, 2),
            Column("once started", ("rate_over_plain_once_started",), 1, 2),
        ),
    ),
    Section(
        "speed-postgres",
        SPEED,
        "An index in PostgreSQL",
        "`benchmarks/postgres.py`: queries over made-up photos, by pgvector's index and by an exact scan, in turns, "
        "and how many of the exact scan's ten best photos are found.",
        (
            Column("vectors", ("vectors",), 1, 0),
            *milliseconds(query_ms="query ms", exact_ms="exact ms"),
            Column("of the exact scan's time", ("query_over_exact",), 1, 3),
            Column("recall@10", ("recall_at_10",), 1, 3),
            Column("queries", ("queries",), 1, 0),
            Column("stored a second", ("photos_stored_a_second",), 1, 0),
            Column("building the index s", ("index_s",), 1, 0),
            Column("kB a photo", ("kilobytes_a_photo",), 1, 1),
            Column("of which index", ("of_which_index",), 1, 1),
        ),
    ),
    Section(
        "precision",
        SPEED,
        "Precision of the weights",
        "`benchmarks/precisions.py`: the detector without heads on 200 dev photos, two CPU cores.",
        (
            Column("MB", ("megabytes",), 1, 1),
            *milliseconds(ms_per_photo="ms a photo"),
            Column("mAP", ("dense_map",)),
            Column("METEOR ≥ .1", ("dense_map_strict",)),
            Column("boxes alone", ("detection_map",)),
        ),
        hides_dev=False,
    ),
    Section(
        "speed-gpu",
        SPEED,
        "The paper's network on a GPU",
        "Of 0.1.0, whose batches and CUDA graphs 0.2.0 gave up for one path (`predict`); not measured again since. "
        "Made-up photos of 720×600 on an H200, 300 proposals, milliseconds a photo.",
        (
            Column("batch", ("batch",), 1, 0),
            *milliseconds(
                ms_per_photo="in all",
                ms_find="proposals",
                ms_choose="suppression",
                ms_read="captions",
                ms_rank="ranking",
                ms_bare_backbone="backbone alone",
            ),
            Column("TFLOP/s", ("tflops",), 1, 0),
        ),
    ),
    Section(
        "speed-train",
        SPEED,
        "Training speed",
        "`benchmarks/train_fcln.py`: made-up photos that lie on the GPU already, an H200.",
        (
            Column("batch", ("batch",), 1, 0),
            Column("photos a second", ("photos_per_second",), 1, 0),
            Column("ms a photo", ("ms_per_photo",), 1, 2),
            Column("times the backbone alone", ("time_over_bare_backbone",), 1, 2),
            Column("TFLOP/s", ("tflops",), 1, 0),
        ),
    ),
    Section(
        "overfit",
        SPEED,
        "Eight photos learned by heart",
        "A net that works can learn a few photos by heart: every caption, every box.",
        (
            Column("regions", ("regions",), 1, 0),
            Column("captions right", ("captions_right",), 1, 0),
            Column("boxes of IoU > 0.9", ("boxes_above_iou_0.9",), 1, 0),
        ),
        steps=True,
    ),
)
