"""The first screen of docs/results.md: the figures that matter, beside the published ones, and what they mean."""

from __future__ import annotations

from dataclasses import dataclass

from columns import Column, Run
from tables import FORMER, GROUNDED, MAP, STRICT


@dataclass(frozen=True)
class Headline:
    """A figure of the first screen."""

    what: str
    run: str
    column: Column
    meaning: str
    """`{}` are filled with the figures of `also`."""
    unit: str = ""
    published: tuple[str, str, Column, str] | None = None
    """Kind and name of a row of docs/published.toml, its column, and on what it was measured."""
    also: tuple[Column, ...] = ()

    def explain(self, run: Run) -> str:
        remark = f". Measured with {FORMER[self.run]}" if self.run in FORMER else ""
        return self.meaning.format(*(column.cell(run) for column in self.also)) + remark


def figure(*keys: str, digits: int = 1) -> Column:
    """A figure as it is."""
    return Column("", keys, 1, digits)


def percent(*keys: str) -> Column:
    """A share, in percent."""
    return Column("", keys, 100, 1)


OTHER_PHOTOS = (
    "*Other photos* means: not comparable. Region figures on our data do not compare with Visual Genome's: other "
    "photos, other phrases, fewer regions per photo. *Same photos*: the same test photos and metric, with other image "
    "features (theirs: an R-CNN's crops, or VGG-16)."
)

SENTENCE_FIRST, PHOTO_FIRST = figure("image_to_text", "r1"), figure("text_to_image", "r1")
BRNN_SEARCH = ("ranking", "BRNN (K&FF)", PHOTO_FIRST, "BRNN, same photos")

HEADLINES = (
    Headline(
        "Dense captioning, mAP",
        "vit",
        MAP,
        "regions that are in the right place *and* say the right thing, over 5 IoU × 6 METEOR thresholds; "
        "{} where METEOR ≥ .1 is asked for, which a shared “a” does not pass",
        published=("dense", "FCLN (DenseCap table 1)", MAP, "FCLN, other photos"),
        also=(STRICT,),
    ),
    Headline(
        "… on true boxes, mAP",
        "vit-true-boxes",
        MAP,
        "captions alone, the places are given. On these photos one caption for everything gets {}, one person judged "
        "by the others {}",
        published=("dense", "FCLN (DenseCap table 1)", Column("", ("map_true_boxes",)), "FCLN, other photos"),
        also=(
            percent("reference_scores", "constant", "map"),
            percent("reference_scores", "human", "map"),
        ),
    ),
    Headline("… boxes alone, mAP", "vit", Column("", ("detection_map",)), "places alone, whatever is said of them"),
    Headline(
        "Objects named, held-out COCO photos",
        "names-vit-coco",
        figure("right"),
        "captions of the boxes of COCO's objects that name the object; {} % as a mean over classes",
        " %",
        also=(figure("class_mean"),),
    ),
    Headline(
        "Captions right by eye",
        "judged-vit",
        figure("right"),
        "of what is shown by default on 100 photos; {} % are half right, {} % wrong",
        " %",
        also=(figure("half"), figure("wrong")),
    ),
    Headline(
        "One sentence a photo, CIDEr",
        "sentences-vit-beam7",
        percent("cider"),
        "how much of what five people wrote is in the sentence; rare words count more",
        published=("captions", "K&FF", percent("cider"), "K&FF, same photos"),
    ),
    Headline(
        "… BLEU-4",
        "sentences-vit-beam7",
        percent("bleu4"),
        "runs of up to four words that people wrote too",
        published=("captions", "K&FF", percent("bleu4"), "K&FF, same photos, unconfirmed"),
    ),
    Headline(
        "Sentence for a photo, R@1",
        "align-vit",
        SENTENCE_FIRST,
        "one of the photo's own sentences comes first among 5,000",
        " %",
        ("ranking", "BRNN (K&FF)", SENTENCE_FIRST, "BRNN, same photos"),
    ),
    Headline(
        "Photo for a sentence, R@1",
        "align-vit",
        PHOTO_FIRST,
        "the right photo comes first among 1,000",
        " %",
        BRNN_SEARCH,
    ),
    Headline(
        "… as `search` answers, R@1",
        "search-vit",
        PHOTO_FIRST,
        "the same, with captions and the language model's likelihood as a second opinion",
        " %",
        BRNN_SEARCH,
    ),
    Headline(
        "… with the paper's BRNN, R@1",
        "align-brnn",
        PHOTO_FIRST,
        "the paper's words, score and loss, on codes of a detector that knows COCO's object names alone",
        " %",
        BRNN_SEARCH,
    ),
    Headline(
        "Phrases on their regions",
        "align-vit-grounding",
        GROUNDED,
        "phrases whose aligned region overlaps what people drew by IoU ≥ .5; always the largest region: {} %, the best "
        "region there is: {} %",
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
        "the best region for a phrase overlaps what people drew by IoU ≥ .5: by likelihood and alignment together. Of "
        "phrases of other photos, {} % are said not to be there",
        " %",
        also=(percent("not_there"),),
    ),
    Headline(
        "Region captions from weak labels, CIDEr",
        "sentences-regions",
        percent("cider"),
        "learned from sentences of whole photos alone: no net on the way has seen a phrase on a box",
        published=("regions", "region RNN (K&FF table 3)", percent("cider"), "K&FF, other photos"),
    ),
    Headline(
        "Time a photo, two CPU cores",
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
