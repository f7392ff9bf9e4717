"""Writes docs/recipe-keys.md: what each recipe trains, by the comment on top of it, and every key of
a recipe, with its default and the docstring that its field has in the code.

python docs/recipe_keys.py             write the page
python docs/recipe_keys.py --check     write nothing; fail if the page is out of date
"""

from __future__ import annotations

import dataclasses
import itertools
import json
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

from docstrings import field_docstrings
from markdown_page import markdown_table, write_or_check

from regiontalk.lab.nets.alignment import AlignmentConfig
from regiontalk.lab.nets.fcln import FCLNConfig
from regiontalk.lab.nets.language import LanguageConfig
from regiontalk.lab.nets.localization import LocalizationConfig
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNNConfig
from regiontalk.lab.nets.recognition import RecognitionConfig
from regiontalk.lab.nets.text_tower import TextTowerConfig
from regiontalk.lab.nets.two_towers import TwoTowersConfig
from regiontalk.lab.training.recipe import detector, heads, language, shared, towers
from regiontalk.models.settings import PredictionConfig, SentencePredictionConfig

PAGE = Path(__file__).with_name("recipe-keys.md")
FOLDER = Path(__file__).parents[1] / "recipes"
INTRO = """\
# The recipes and their keys

Written by `python docs/recipe_keys.py` from the comments in the recipes and the docstrings in the code; do not edit.
[training.md](training.md) explains recipes. "The paper" is DenseCap for detectors, and Karpathy & Fei-Fei for heads;
"the release" is DenseCap's released code. Keys of the first table of each kind stand above the first table of a
recipe."""

Table = tuple[str, type]

KINDS: dict[str, tuple[str, tuple[Table, ...]]] = {
    'Detectors (`kind = "fcln"`)': (
        "One `[[data]]` for each data set of the mixture; evaluation uses the dev photos of the first. The backbone "
        'has an optimiser of its own, whose `kind` defaults to `"sgd"`. `regiontalk fit` sets the last five keys of '
        "`[prediction]`; recipes leave them out.",
        (
            ("The recipe itself", detector.FCLNRecipe),
            ("`[run]`", detector.FCLNRunConfig),
            ("`[[data]]`", detector.DataConfig),
            ("`[net]`", FCLNConfig),
            ("`[net.localization]`", LocalizationConfig),
            ("`[net.recognition]`", RecognitionConfig),
            ("`[net.language]`", LanguageConfig),
            ("`[vocabulary]`", detector.VocabularyConfig),
            ("`[augmentation]`", detector.AugmentationConfig),
            (
                "`[sampler]` and, but for its last three keys, `[anchor_sampler]`",
                detector.ProposalSamplerConfig,
            ),
            ("`[sentences]`", detector.PhotoSentencesConfig),
            ("`[losses]`", detector.LossConfig),
            ("`[backbone_optimizer]` and `[optimizer]`", shared.OptimizerConfig),
            ("`[schedule]`", detector.FCLNScheduleConfig),
            ("`[prediction]`", PredictionConfig),
        ),
    ),
    'Alignment nets (`kind = "alignment"`)': (
        "`[run]`, `[optimizer]` and the first five keys of `[schedule]` are those of detectors.",
        (
            ("The recipe of an alignment net", heads.AlignmentRecipe),
            ("`[run]` of an alignment net", heads.AlignmentRunConfig),
            ("`[[data]]` of an alignment net", heads.CodedDataConfig),
            ("`[net]` of an alignment net", AlignmentConfig),
            ("`[vocabulary]` of heads", heads.SentenceVocabularyConfig),
            ("`[word_vectors]`", heads.WordVectorsConfig),
            ("`[losses]` of an alignment net", heads.AlignmentLossConfig),
        ),
    ),
    'Sentence nets (`kind = "sentences"`)': (
        "`run.batch` counts photos or regions, each with all of its texts. The optimiser defaults to RMSprop at 1e-3 "
        "with a decay of 0.999, and `schedule.clip_value` to 5.",
        (
            ("The recipe of a sentence net", heads.SentencesRecipe),
            ("`[run]` of a sentence net", heads.SentencesRunConfig),
            ("`[data]` of a sentence net", heads.SentencesDataConfig),
            ("`[net]` of a sentence net", MultimodalRNNConfig),
            ("`[prediction]` of a sentence net", SentencePredictionConfig),
        ),
    ),
    'Joint runs (`kind = "joint"`)': (
        "The tables of an alignment net, with `[alignment]` in place of `[net]`; `[net]` and `[prediction]` of a "
        "sentence net, without attention and with one view; one `[data]`, and:",
        (
            ("`[run]` of a joint run", heads.JointRunConfig),
            ("`[snippets]`", heads.JointSnippetsConfig),
        ),
    ),
    'Captions alone (`kind = "language"`)': (
        "`share` and `run.batch` count phrases.",
        (
            ("The recipe of a language model", language.LanguageRecipe),
            ("`[run]` of a language model", language.LanguageRunConfig),
            ("`[[data]]` of a language model", language.LanguageDataConfig),
        ),
    ),
    'Two towers (`kind = "contrastive"`)': (
        "`[augmentation]` is that of detectors, with `zoom_by_batch = true` and `resolution = [160, 640]` as defaults. "
        "`[backbone_optimizer]`, `[text_optimizer]` and `[optimizer]` have the keys of an optimiser; their `kind` "
        'defaults to `"adamw"`, their rates to 6e-5, 6e-5 and 6e-4, and `backbone_optimizer.layer_decay` to 0.8. '
        "`[schedule]` defaults to a warm-up of 100 steps, a cosine and `clip_norm = 1.0`.",
        (
            ("The recipe of two towers", towers.ContrastiveRecipe),
            ("`[run]` of two towers", towers.ContrastiveRunConfig),
            ("`[[data]]` of two towers", towers.TextDataConfig),
            ("`[net]` of two towers", TwoTowersConfig),
            ("`[net.text]`", TextTowerConfig),
            ("`[losses]` of two towers", towers.ContrastiveLossConfig),
        ),
    ),
}
RECIPES = (
    detector.FCLNRecipe,
    heads.AlignmentRecipe,
    heads.SentencesRecipe,
    heads.JointRecipe,
    language.LanguageRecipe,
    towers.ContrastiveRecipe,
)
SHOWN_ONCE = {
    heads.AlignmentRunConfig: shared.RunConfig,
    heads.SentencesRunConfig: shared.RunConfig,
    heads.JointRunConfig: shared.RunConfig,
    language.LanguageRunConfig: shared.RunConfig,
    language.LanguageDataConfig: detector.DataConfig,
    towers.ContrastiveRunConfig: shared.RunConfig,
}
"""Tables that only show what they do not have from another one, but for its changed keys."""


def main() -> None:
    write_or_check("docs/recipe_keys.py", __doc__, lambda: {PAGE: render()})


def render() -> str:
    recipes = [
        [f"[{path.stem}](../recipes/{path.name})", purpose(path)]
        for path in sorted(FOLDER.glob("*.toml"))
    ]
    table = markdown_table(["recipe", "trains"], recipes, text_columns=(0, 1))
    parts = [INTRO, f"## The recipes\n\n{table}"]
    for kind, (text, tables) in KINDS.items():
        parts.append(f"## {kind}\n\n{text}")
        parts += [f"### {heading}\n\n{table_of(config)}" for heading, config in tables]
    return "\n\n".join(parts) + "\n"


def purpose(recipe: Path) -> str:
    """The first sentences of the comment on top of a recipe: to an empty line or a command."""
    lines = recipe.read_text(encoding="utf-8").splitlines()
    comment = itertools.takewhile(lambda line: re.match(r"# \S", line), lines)
    text = " ".join(line.removeprefix("# ") for line in comment)
    return f"{text.removesuffix(':')}." if text.endswith(":") else text


def table_of(config: type) -> str:
    documented = field_docstrings(config)
    types = typing.get_type_hints(config)
    rows = [
        [f"`{item.name}`", default(item), meaning(types[item.name], documented.get(item.name, ""))]
        for item in keys(config)
    ]
    return markdown_table(["key", "default", "meaning"], rows, text_columns=(0, 1, 2))


def keys(config: type) -> Iterator[dataclasses.Field[Any]]:
    """The fields that are no tables themselves."""
    base = SHOWN_ONCE.get(config)
    inherited = field_docstrings(base) if base else {}
    for item in dataclasses.fields(config):
        if item.name == "kind" and config in RECIPES:
            continue  # the heading says it
        own = item.name in vars(config).get("__annotations__", {})
        if not is_table(config, item.name) and (own or item.name not in inherited):
            yield item


def is_table(config: type, name: str) -> bool:
    kinds = [typing.get_type_hints(config)[name]]
    kinds += typing.get_args(kinds[0])
    return name == "vocabulary" or any(map(dataclasses.is_dataclass, kinds))


def default(item: dataclasses.Field[Any]) -> str:
    if item.default_factory is not dataclasses.MISSING:
        value = item.default_factory()
    elif item.default is dataclasses.MISSING:
        return "required"
    else:
        value = item.default
    if item.name == "anchors":
        return "the release's 12"
    return "none" if value is None else f"`{json.dumps(value, ensure_ascii=False)}`"


def meaning(kind: Any, text: str) -> str:
    """The docstring, and the values that are allowed if there are a few."""
    choices = typing.get_args(kind) if typing.get_origin(kind) is Literal else ()
    unnamed = [f"`{json.dumps(value)}`" for value in choices if f"`{value}`" not in text]
    allowed = f" {', '.join(unnamed)}." if len(choices) > 1 and len(unnamed) == len(choices) else ""
    return f"{text}{allowed}"


if __name__ == "__main__":
    main()
