"""The overview table of docs/results.md: the main figures, the published ones, and what they
mean."""

from __future__ import annotations

from dataclasses import dataclass

from columns import Column, Run
from tables import BOXES, FORMER, GROUNDED, MAP, STRICT


@dataclass(frozen=True)
class Headline:
    """A row of the overview table."""

    what: str
    run: str
    column: Column
    meaning: str
    """With `{}` for each figure of `also`."""
    unit: str = ""
    published: tuple[str, str, Column, str] | None = None
    """Kind and name of a row of docs/published.toml, its column, and on what it was measured."""
    also: tuple[Column, ...] = ()

    def explain(self, run: Run) -> str:
        remark = f". Measured with {FORMER[self.run]}" if self.run in FORMER else ""
        return self.meaning.format(*(column.cell(run) for column in self.also)) + remark


def figure(*keys: str, digits: int = 1) -> Column:
    """A figure without conversion."""
    return Column("", keys, 1, digits)


def percent(*keys: str) -> Column:
    """A share, in percent."""
    return Column("", keys, 100, 1)


OTHER_PHOTOS = (
    "Intervals are bootstraps over photos. Where none is shown, the figures of single photos were not kept. "
    "*Other photos*: not comparable. Region figures on our data do not compare with Visual Genome's: other photos, "
    "other phrases, fewer regions per photo. *Same photos*: the same test photos and metric, but other image features "
    "(theirs: R-CNN crops, or VGG-16)."
)

SENTENCE_FIRST, PHOTO_FIRST = figure("image_to_text", "r1"), figure("text_to_image", "r1")
BRNN_SEARCH = ("ranking", "BRNN (K&FF)", PHOTO_FIRST, "BRNN, same photos")
CLIP_SEARCH = (
    "ranking",
    "CLIP ViT-B/32, zero-shot, as others report it",
    PHOTO_FIRST,
    "CLIP ViT-B/32 zero-shot, 1,215 photos of Flickr8k, as others report it",
)

HEADLINES = (
    Headline(
        "Dense captioning, mAP",
        "vit",
        MAP,
        "regions with the right box *and* the right caption, over 5 IoU × 6 METEOR thresholds; {} where METEOR ≥ .1 is "
        "required, which captions that share only an “a” do not reach",
        published=("dense", "FCLN (DenseCap table 1)", MAP, "FCLN, other photos"),
        also=(STRICT,),
    ),
    Headline(
        "… on true boxes, mAP",
        "vit-true-boxes",
        MAP,
        "captions alone, the boxes are given. On these photos the best single caption for all regions gets {}, one "
        "person's phrases scored against the others' {}",
        published=(
            "dense",
            "FCLN (DenseCap table 1)",
            Column("", ("map_true_boxes",)),
            "FCLN, other photos",
        ),
        also=(
            percent("reference_scores", "constant", "map"),
            percent("reference_scores", "human", "map"),
        ),
    ),
    Headline("… boxes alone, mAP", "vit", BOXES, "captions ignored"),
    Headline(
        "Objects named, held-out COCO photos",
        "names-vit-coco",
        figure("right"),
        "share of captions of COCO's boxes that name the object; {} % as a mean over classes. The photos are as small "
        "as those of training; on [sharp ones](model-card.md#naming-things) it is less",
        " %",
        also=(figure("class_mean"),),
    ),
    Headline(
        "Captions judged right by two language models",
        "judged-vit",
        figure("right"),
        "of the captions shown by default on 96 photos that nothing was fitted on; {} % are half right, {} % wrong",
        " %",
        also=(figure("half"), figure("wrong")),
    ),
    Headline(
        "One sentence per photo, CIDEr",
        "sentences-vit-beam7",
        percent("cider"),
        "agreement with the sentences of five people; rare words count more",
        published=("captions", "K&FF", percent("cider"), "K&FF, same photos"),
    ),
    Headline(
        "… BLEU-4",
        "sentences-vit-beam7",
        percent("bleu4"),
        "sequences of up to four words that people wrote too",
        published=("captions", "K&FF", percent("bleu4"), "K&FF, same photos, unconfirmed"),
    ),
    Headline(
        "Sentence for a photo, R@1",
        "align-vit",
        SENTENCE_FIRST,
        "one of the photo's own sentences is first of 5,000",
        " %",
        ("ranking", "BRNN (K&FF)", SENTENCE_FIRST, "BRNN, same photos"),
    ),
    Headline(
        "Photo for a sentence, R@1",
        "align-vit",
        PHOTO_FIRST,
        "the right photo is first of 1,000",
        " %",
        BRNN_SEARCH,
    ),
    Headline(
        "… with `search`, R@1",
        "search-vit",
        PHOTO_FIRST,
        "the same, fused with captions and the language model's likelihood",
        " %",
        CLIP_SEARCH,
    ),
    Headline(
        "… with the paper's BRNN, R@1",
        "align-brnn",
        PHOTO_FIRST,
        "the paper's word encoder, score and loss, on region codes of a detector trained on COCO's object names only",
        " %",
        BRNN_SEARCH,
    ),
    Headline(
        "Phrase grounding",
        "align-vit-grounding",
        GROUNDED,
        "phrases whose aligned region has an IoU ≥ .5 with the true box; always the largest region: {} %, always the "
        "best region: {} %",
        " %",
        also=(
            percent("baselines", "largest region", "accuracy"),
            percent("baselines", "best region there is", "accuracy"),
        ),
    ),
    Headline(
        "Phrases found by `find`",
        "find-vit",
        GROUNDED,
        "phrases whose best region, by likelihood and alignment together, has an IoU ≥ .5 with the true box. Of "
        "phrases of other photos, {} % are rejected",
        " %",
        also=(percent("not_there"),),
    ),
    Headline(
        "Region captions from weak labels, CIDEr",
        "sentences-regions",
        percent("cider"),
        "trained on sentences of whole photos only. One number, the weight of a region's score, was chosen on phrases "
        "with boxes of 150 dev photos",
        published=("regions", "region RNN (K&FF table 3)", percent("cider"), "K&FF, other photos"),
    ),
    Headline(
        "Time per photo, two CPU cores",
        "speed-caption-1",
        figure("milliseconds", "ours", "photo", digits=0),
        "regions and captions of a photo of 640×480 from file to text; the paper's network on the same cores: {} ms",
        " ms",
        ("speed", "FCLN, 300 proposals, 720×600", figure("ms", digits=0), "FCLN on a Titan X"),
        (figure("milliseconds", "paper", "photo", digits=0),),
    ),
    Headline(
        "Size of the model",
        "speed-caption-1",
        figure("model_mb", digits=0),
        "with both heads, inside the package; a captioning process takes {} MB of memory",
        " MB",
        also=(figure("memory_mb", digits=0),),
    ),
)
