"""The tables of docs/results.md: the columns and the introduction of each kind of run."""

from __future__ import annotations

from columns import RANKS, Column, Section, milliseconds, rank_columns, sentence_columns

PACKAGE = ("vit", "fast")
"""The package's models, as in the names of their runs, which come first."""

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
"""Remarks on runs of earlier models of the package."""


MAP, STRICT = Column("mAP", ("map",)), Column("METEOR ≥ .1", ("map_strict",))
BOXES = Column("boxes alone", ("detection_map",))
METEOR = Column("METEOR", ("meteor",), 1, 3)
GROUNDED = Column("IoU ≥ .5", ("accuracy",), digits=1)
TYPES = ("people", "clothing", "bodyparts", "animals", "vehicles", "instruments", "scene", "other")

DENSECAP = "DenseCap: regions and their captions"
KFF = "Karpathy & Fei-Fei: sentences and alignments"
SPEED = "Speed, size and checks"
GROUPS = (DENSECAP, KFF, SPEED)

SECTIONS = (
    Section(
        "dense",
        DENSECAP,
        "Dense captioning",
        "DenseCap table 1, on the model's own boxes: mAP in percent over 5 IoU × 6 METEOR thresholds. “METEOR ≥ .1” "
        "leaves out the two lowest METEOR thresholds, which captions that share only an “a” can pass. “Boxes alone”: "
        "mAP over IoU alone, captions ignored. METEOR: mean over all captions against all references of their photo.",
        (MAP, STRICT, BOXES, METEOR),
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
        "The same with the true boxes given, so only captions are measured. The reference rows are computed from the "
        "same truth: the best single caption for all regions, and one person's phrases scored against the others'.",
        (MAP, STRICT, METEOR),
        true_boxes=True,
        references=True,
    ),
    Section(
        "dense",
        DENSECAP,
        "How regions are sampled",
        "The effect of each change to the paper's training, on one small network ([recipe](../recipes/sampling.toml), "
        "[commands](training.md#what-each-departure-does)): 19,200 photos each, everything else the same. *written*: "
        "as in DenseCap section 3. *no-gradient*: no gradient through box coordinates. *anchors*: the localization "
        "layer is trained on anchors, not on predicted boxes. *balanced*: the same number of positives for each true "
        "region. *weights*: all losses have weight 1. *release*: as in the released code. *ours*: as in the package's "
        "model.",
        (MAP, STRICT, BOXES, METEOR),
        hides_dev=False,
        series="sampling-",
        is_main=False,
    ),
    Section(
        "dense",
        DENSECAP,
        "How regions are sampled: true boxes",
        "The same networks with the true boxes given.",
        (MAP, STRICT, METEOR),
        true_boxes=True,
        hides_dev=False,
        series="sampling-",
        is_main=False,
    ),
    Section(
        "suppression",
        DENSECAP,
        "Learned suppression",
        "Which regions are kept, and in which order (`benchmarks/suppression.py`). *nms*: NMS at the IoU in the name, "
        "sorted by the model's score. *ranking*: the same, sorted by the package's fitted ranking. *learned*: NMS at "
        "the IoU in the name, then a learned net instead of a second NMS, which DenseCap leaves to future work. "
        "Cross-validated on dev photos, in percent.",
        (MAP, STRICT, BOXES, Column("regions per photo", ("regions_per_photo",), 1, 1)),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "names",
        DENSECAP,
        "Objects named",
        "The share of captions that name the object, for boxes of COCO's objects of at least 32 × 32 pixels in the "
        "original photo, in percent ([phrases.md](phrases.md)).",
        (
            Column("right", ("right",), 1, 1),
            Column("without people", ("right_without_people",), 1, 1),
            Column("mean over classes", ("class_mean",), 1, 1),
            Column("objects", ("objects",), 1, 0),
        ),
        hides_dev=False,
    ),
    Section(
        "teach",
        DENSECAP,
        "Taught words",
        "Names that the model was not trained on, taught with so many examples each "
        "([teach.md](teach.md#how-good-it-is)): the share of their other examples for which the right one of all names "
        "is the likeliest, by region codes and by the vectors of an index; and the share of everyday regions that are "
        "called by one of 50 names. In percent.",
        tuple(
            Column(f"{heading}, {count}", (by, "by_examples", count, key), 1, 1)
            for heading, by, key in (
                ("right", "codes", "right"),
                ("right by vectors", "vectors", "right"),
                ("false", "codes", "false"),
            )
            for count in ("1", "3", "5", "10")
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "objects",
        DENSECAP,
        "Object classes found",
        "`find` asked for every class of COCO in every photo ([definitions](evaluation.md#benchmarks-of-today)), in "
        "percent: COCO's AP; cgF1, the product of “is it there” (MCC) and of F1 where it is; POPE's accuracy, F1 and "
        "share of yes, by how the absent classes are chosen.",
        (
            Column("AP", ("detection", "ap"), 1, 1),
            Column("AP50", ("detection", "ap50"), 1, 1),
            Column("AP75", ("detection", "ap75"), 1, 1),
            Column("cgF1", ("cgf1",), 1, 1),
            Column("MCC", ("mcc",), 1, 1),
            Column("F1 where it is", ("positive_f1",), 1, 1),
            *(
                Column(f"{way}: {heading}", ("presence", way, key), 1, 1)
                for way in ("random", "popular", "adversarial")
                for key, heading in (("accuracy", "accuracy"), ("f1", "F1"), ("yes", "yes"))
            ),
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "chair",
        KFF,
        "Objects that sentences invent",
        "CHAIR ([definitions](evaluation.md#benchmarks-of-today)), in percent: mentioned objects that are not there, "
        "sentences with one, and the share of marked classes that are mentioned.",
        (
            Column("CHAIR-i", ("chair_i",), 1, 1),
            Column("CHAIR-s", ("chair_s",), 1, 1),
            Column("recall", ("recall",), 1, 1),
            Column("sentences", ("sentences",), 1, 0),
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "diversity",
        KFF,
        "Different captions",
        "In percent, and the same for what people wrote: different captions, distinct-1, distinct-2, found word for "
        "word in the training data.",
        tuple(
            Column(f"{whose}{heading}", (*path, key), 1, 1)
            for whose, path in (("", ()), ("people's: ", ("people",)))
            for key, heading in (
                ("different", "different"),
                ("distinct1", "distinct-1"),
                ("distinct2", "distinct-2"),
                ("in_training", "in training"),
            )
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "context",
        DENSECAP,
        "Captions with and without what is around",
        "Captions of true regions among the photo's others, as the only region, and cut out: the share that names "
        "the thing, and the share that is the same as among the others, in percent.",
        (
            *(
                Column(f"right, {way.replace('_', ' ')}", (way, "right"), 1, 1)
                for way in ("together", "alone", "cut_out")
            ),
            Column("same, alone", ("alone", "same_as_together"), 1, 1),
            Column("same, cut out", ("cut_out", "same_as_together"), 1, 1),
            Column("regions", ("regions",), 1, 0),
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "shown",
        DENSECAP,
        "Captions that people see by default",
        "In percent: right captions on true regions, right colour words, things mentioned first in people's sentences "
        "that a caption names; and what a photo has of them.",
        (
            Column("right", ("right",), 1, 1),
            Column("colours right", ("colours_right",), 1, 1),
            Column("first things named", ("first_things_named",), 1, 1),
            Column("captions of a photo", ("captions_per_photo",), 1, 2),
            Column("colours of a photo", ("colours_per_photo",), 1, 2),
            Column("photos", ("photos",), 1, 0),
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "judged",
        DENSECAP,
        "Captions judged by two language models",
        "In percent, by vision-language models, not by people ([how far to trust this]"
        "(model-card.md#judged-by-two-language-models)).",
        (
            *(Column(name, (name,), 1, 1) for name in ("right", "half", "wrong")),
            Column("captions", ("captions",), 1, 0),
        ),
    ),
    Section(
        "retrieval",
        DENSECAP,
        "Photos and regions from four captions",
        "DenseCap table 2. Recall and localization in percent; median rank and median IoU.",
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
        "`regiontalk find`, in percent. For phrases of the photo: the share whose best region has an IoU ≥ 0.5 with "
        "the true box, and the share that is reported as present. For phrases of other photos: the share that is "
        "rejected.",
        (
            Column("best region right", ("accuracy",), digits=1),
            Column("reported as present", ("found",), digits=1),
            Column("absent phrases rejected", ("not_there",), digits=1),
            Column("phrases", ("phrases",), 1, 0),
        ),
    ),
    Section(
        "proposals",
        DENSECAP,
        "Recall of proposals",
        "The share of true boxes that overlap one of the best 100 or 300 proposals by the IoU, in percent.",
        tuple(
            Column(f"{count}, IoU ≥ {iou}", ("proposal_recall", count, iou), digits=1)
            for count in ("100", "300")
            for iou in ("0.3", "0.5", "0.7")
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "captions",
        KFF,
        "One sentence per photo",
        "K&FF table 2, in percent (CIDEr × 100). “In training”: the share of sentences that occur word for word in the "
        "training data.",
        (*sentence_columns(), Column("in training", ("in_training",), digits=1)),
        published="captions",
        steps=True,
    ),
    Section(
        "ranking",
        KFF,
        "Images by sentences, sentences by images",
        "K&FF table 1: recall in percent and median rank, on 1,000 photos and 5,000 sentences unless noted. Runs that "
        "kept their five best checkpoints on dev show the mean over these, as in the paper.",
        rank_columns(),
        published="ranking",
        steps=True,
    ),
    Section(
        "search",
        KFF,
        "Photos by `search`",
        "`regiontalk search` with Flickr8k's 5,000 test sentences as queries, on an index of the 1,000 photos: recall "
        "in percent and median rank. “Fused”: vectors, captions and likelihoods together. “Vectors only”: as in the "
        "table above.",
        tuple(
            Column(f"{heading} {cut}", (key, rank), 1, 1)
            for key, heading in (("text_to_image", "fused"), ("by_vectors_alone", "vectors only"))
            for rank, cut in zip(RANKS, ("R@1", "R@5", "R@10", "med. r"), strict=True)
        ),
    ),
    Section(
        "search-words",
        KFF,
        "Photos by single words",
        "`regiontalk search` with 16 names of things as queries, one word each (docs/record.sh): the share of the "
        "photos that show the thing and are above the line (recall), and the share of those above the line that show "
        "it (precision), in percent, of all words together. Most of these photos show people, so the words for other "
        "things stand apart.",
        tuple(
            Column(heading, (key,), 1, 1)
            for heading, key in (
                ("recall", "recall"),
                ("precision", "precision"),
                ("recall without people", "recall_without_people"),
                ("precision without people", "precision_without_people"),
            )
        ),
        hides_dev=False,
    ),
    Section(
        "grounding",
        KFF,
        "Phrase grounding",
        "For the phrases of Flickr30k Entities, in percent: the share aligned with a region of IoU ≥ 0.5 with the true "
        "box, and the share whose region has its centre in the true box (pointing). The columns from “random region” "
        "on are baselines that ignore the phrase. “Best region” is the upper bound that the detector's regions set.",
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
                    ("best region", "best region there is"),
                )
            ),
        ),
    ),
    Section(
        "grounding",
        KFF,
        "Phrase grounding by type",
        "The share of phrases with IoU ≥ 0.5, in percent.",
        tuple(Column(name, ("types", name, "accuracy"), digits=1) for name in TYPES),
        is_main=False,
    ),
    Section(
        "regions",
        KFF,
        "Captions of given regions",
        "K&FF table 3, in percent (CIDEr × 100): captions of boxes that people drew, by nets trained on sentences of "
        "whole photos. The remarks say what the detector behind the region codes was trained on.",
        sentence_columns(),
        published="regions",
        steps=True,
    ),
    Section(
        "alignment-settings",
        KFF,
        "Alignment settings compared",
        "Short trainings of 600 steps that differ in one setting; recall on 500 dev photos.",
        (
            Column("sum of recalls", ("recall_sum",), 1, 1),
            *(
                Column(f"{arrow} R@{cut}", (f"{key}_r{cut}",), 1, 1)
                for key, arrow in (
                    ("image_to_text", "image → sentence"),
                    ("text_to_image", "sentence → image"),
                )
                for cut in (1, 5, 10)
            ),
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "speed-caption",
        SPEED,
        "Captioning a photo on two CPU cores",
        "`benchmarks/caption.py`, run three times; ours, torch and the paper's network in the same process. "
        "Milliseconds per photo.",
        (
            Column("ours", ("milliseconds", "ours", "photo"), 1, 1),
            Column("ours in eager torch", ("milliseconds", "torch", "photo"), 1, 1),
            Column("paper's network, ONNX Runtime", ("milliseconds", "paper", "photo"), 1, 1),
            Column("speedup over the paper's", ("speedup_over_paper",), 1, 1),
            Column("model MB", ("model_mb",), 1, 1),
            Column("memory MB", ("memory_mb",), 1, 0),
            Column("cold start s", ("cold_process_seconds",), 1, 2),
            Column("`--help` CPU s", ("help_cpu_seconds",), 1, 2),
        ),
    ),
    Section(
        "speed-table1",
        SPEED,
        "Run time of DenseCap's table 1",
        "`benchmarks/table1.py`: milliseconds per photo, the systems in turns on one device. The number "
        "in the name is the number of proposals. Region RNN's crops go through the CNN one by one, as in the paper, or "
        "100 at a time (“batched”). Weights are random, so all captions have the maximum length, and NMS keeps more "
        "boxes of the FCLN than after training: its RNN takes longer here than that of a trained FCLN.",
        (
            *milliseconds(
                proposals_ms="proposals",
                cnn_recognition_ms="CNN + recognition",
                rnn_ms="RNN",
                total_ms="total",
            ),
            Column("relative to the FCLN", ("times_fcln",), 1, 1),
        ),
        published="runtime",
        is_main=False,
    ),
    Section(
        "speed-describe",
        SPEED,
        "Describing a photo on two CPU cores",
        "`benchmarks/describe.py`, milliseconds per photo.",
        milliseconds(backbone_ms="backbone only", beam_1_ms="beam 1", beam_7_ms="beam 7"),
        is_main=False,
    ),
    Section(
        "speed-align",
        SPEED,
        "Aligning a sentence on two CPU cores",
        "`benchmarks/align.py`, milliseconds per photo and sentence.",
        milliseconds(
            caption_ms="caption",
            align_ms="align",
            align_long_ms="align, sentence of several windows",
        ),
        is_main=False,
    ),
    Section(
        "large-photos",
        SPEED,
        "Large photos",
        "`benchmarks/large_photos.py`: a JPEG of 12 megapixels compared with the same photo at 640×480, in turns, "
        "milliseconds; peak memory for eight photos of 50 megapixels with `-j 2`. JPEGs are decoded at reduced size. "
        "“Boxes within 1 %”: the share of the ten best boxes that are where a full decode has them. “One value "
        "changed”: the same share after changing one value of one pixel by one, which shows how stable the boxes of "
        "an 8-bit model are.",
        (
            *milliseconds(
                small_ms="640×480", large_ms="12 megapixels", progressive_ms="progressive"
            ),
            Column("12 MP / small", ("large_over_small",), 1, 2),
            Column("boxes within 1 %", ("reduced_boxes_within_1_percent",), digits=0),
            Column("one value changed", ("one_value_changed_boxes_within_1_percent",), digits=0),
            *(
                Column(f"MB, {heading}", (f"memory_50_megapixels_{name}_j2_mb",), 1, 0)
                for name, heading in (
                    ("jpg", "JPEG"),
                    ("png", "PNG"),
                    ("webp", "WebP"),
                    ("mixed", "mixed"),
                )
            ),
        ),
        is_main=False,
    ),
    Section(
        "speed-search",
        SPEED,
        "Indexing and search",
        "`benchmarks/search.py`, 100,000 synthetic photos of 20 regions. “Query”: scan time of a query, also relative "
        "to the matrix product over the same vectors in memory. “Command”: seconds of `regiontalk search` from start "
        "to answer with a cold disk cache. “Recall@10”: the share of the ten best photos that is found; “with ties”: "
        "photos that equal the tenth at the stored 12 bits count too. Real photos: indexing rate, also relative to "
        "captioning. “Equal”: 1 if an index built by runs that were killed equals that of an uninterrupted run.",
        (
            Column("query ms", ("points", "100000", "query_ms"), 1, 0),
            Column("query / product", ("points", "100000", "query_over_product"), 1, 2),
            Column("command s", ("points", "100000", "search_command_s"), 1, 2),
            Column("recall@10", ("points", "100000", "recall_at_10"), 1, 3),
            Column("with ties", ("points", "100000", "recall_at_10_with_ties"), 1, 3),
            Column("kB per photo", ("points", "100000", "kilobytes_a_photo"), 1, 1),
            Column("second run over 10,000 photos, s", ("second_run_s",), 1, 2),
            Column("photos per second", ("photos_a_second",), 1, 1),
            Column("rate / caption", ("rate_over_caption",), 1, 2),
            Column("kills", ("killed",), 1, 0),
            Column("equal", ("equal_after_kills",), 1, 0),
        ),
        is_main=False,
    ),
    Section(
        "speed-serve",
        SPEED,
        "The server",
        "`benchmarks/serve.py`: milliseconds for a photo of 12 megapixels, captioned directly and sent to an idle "
        "server; then 200 clients send it at the same time for a minute: answers per second, and response time of the "
        "health call.",
        (
            *milliseconds(caption_ms="captioned", serve_ms="sent"),
            Column("sent / captioned", ("slower_than_caption",), 1, 2),
            Column("answers per second", ("answered_per_second",), 1, 1),
            *milliseconds(health_ms_median="health, median", health_ms_most="health, max"),
            Column("MB, first half", ("memory_mb_first_half",), 1, 0),
            Column("MB, second half", ("memory_mb_second_half",), 1, 0),
        ),
        is_main=False,
    ),
    Section(
        "speed-page",
        SPEED,
        "Pages",
        "`benchmarks/page.py`: in Chromium, milliseconds until a written page of 330 photos shows something, until its "
        "search has answered, and until its last photo stands there. For `serve`: seconds from its start to its first "
        "answer, and kB of the first view of its page, without and with what is shown of the photos.",
        (
            *milliseconds(
                first_view_ms="first view", search_ms="search", last_photo_ms="last photo"
            ),
            Column("serve: first answer s", ("serve_first_answer_s",), 1, 2),
            Column("first view kB", ("serve_page_kb",), 1, 0),
            Column("with photos kB", ("serve_page_with_thumbnails_kb",), 1, 0),
        ),
        is_main=False,
    ),
    Section(
        "speed-cluster",
        SPEED,
        "Ray and threads compared",
        "`benchmarks/cluster.py`: `caption --engine ray` with two workers and `caption -j 2`, with identical output. "
        "Seconds from start to end.",
        (
            Column("photos", ("photos",), 1, 0),
            Column("threads s", ("plain_s",), 1, 1),
            Column("Ray s", ("ray_s",), 1, 1),
            Column("rate, Ray / threads", ("rate_over_plain",), 1, 2),
            Column("… without start-up", ("rate_over_plain_once_started",), 1, 2),
        ),
        is_main=False,
    ),
    Section(
        "speed-postgres",
        SPEED,
        "An index in PostgreSQL",
        "`benchmarks/postgres.py`: queries over synthetic photos, by pgvector's index and by an exact scan, in turns. "
        "“Recall@10”: the share of the exact scan's ten best photos that is found.",
        (
            Column("vectors", ("vectors",), 1, 0),
            *milliseconds(query_ms="query ms", exact_ms="exact ms"),
            Column("query / exact", ("query_over_exact",), 1, 3),
            Column("recall@10", ("recall_at_10",), 1, 3),
            Column("queries", ("queries",), 1, 0),
            Column("photos stored per second", ("photos_stored_a_second",), 1, 0),
            Column("building the index, s", ("index_s",), 1, 0),
            Column("kB per photo", ("kilobytes_a_photo",), 1, 1),
            Column("of these, index", ("of_which_index",), 1, 1),
        ),
        is_main=False,
    ),
    Section(
        "precision",
        SPEED,
        "Precision of the weights",
        "`benchmarks/precisions.py`: the detector without heads on 200 dev photos, two CPU cores.",
        (
            Column("MB", ("megabytes",), 1, 1),
            *milliseconds(ms_per_photo="ms per photo"),
            Column("mAP", ("dense_map",)),
            Column("METEOR ≥ .1", ("dense_map_strict",)),
            BOXES,
        ),
        hides_dev=False,
        is_main=False,
    ),
    Section(
        "speed-gpu",
        SPEED,
        "The paper's network on a GPU",
        "Measured with 0.1.0. Version 0.2.0 replaced its batches and CUDA graphs by a single path (`predict`), which "
        "was not measured here. Synthetic photos of 720×600 on an H200, 300 proposals, milliseconds per photo.",
        (
            Column("batch", ("batch",), 1, 0),
            *milliseconds(
                ms_per_photo="total",
                ms_find="proposals",
                ms_choose="suppression",
                ms_read="captions",
                ms_rank="ranking",
                ms_bare_backbone="backbone only",
            ),
            Column("TFLOP/s", ("tflops",), 1, 0),
        ),
        is_main=False,
    ),
    Section(
        "speed-train",
        SPEED,
        "Training speed",
        "`benchmarks/train_fcln.py`: synthetic photos that are already in the memory of the GPU, an H200.",
        (
            Column("batch", ("batch",), 1, 0),
            Column("photos per second", ("photos_per_second",), 1, 0),
            Column("ms per photo", ("ms_per_photo",), 1, 2),
            Column("relative to the backbone", ("time_over_bare_backbone",), 1, 2),
            Column("TFLOP/s", ("tflops",), 1, 0),
        ),
        is_main=False,
    ),
    Section(
        "overfit",
        SPEED,
        "Overfitting eight photos",
        "A check of the training code: a net must be able to overfit a few photos, with every caption and box right.",
        (
            Column("regions", ("regions",), 1, 0),
            Column("captions right", ("captions_right",), 1, 0),
            Column("boxes of IoU > 0.9", ("boxes_above_iou_0.9",), 1, 0),
        ),
        steps=True,
        is_main=False,
    ),
)
