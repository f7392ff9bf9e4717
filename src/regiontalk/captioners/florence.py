"""Florence-2 as a captioner: `--model florence:FOLDER`.

The weights are the user's own: a folder, or a name in the cache of Hugging Face. Nothing is
fetched, no code from the folder is run, and pickles are not read.
"""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regiontalk.captioners import CaptionedRegion, ScoredCaption
from regiontalk.errors import MissingExtra, ModelError, UsageError, one_line

REGIONS = "<DENSE_REGION_CAPTION>"
CAPTION = "<REGION_TO_DESCRIPTION>"
COORDINATE_BINS = 1000
"""Places in a photo's width, and in its height; the tokens `<loc_0>` to `<loc_999>`."""
MAX_ANSWER_TOKENS = 1024  # tokens of an answer, as in the model's own examples


class Florence:
    """The tasks "dense region caption" and "region to description", decoded greedily.

    Florence-2 gives no scores. Here, a score is the geometric mean of the probabilities of the
    answer's tokens: words, and the four of the box.
    """

    def __init__(self, weights: str = "") -> None:
        """`weights`: a folder, or a name in the cache: "florence-community/Florence-2-base"."""
        if not weights:
            raise UsageError(
                "Florence-2 needs its weights",
                hint="--model florence:FOLDER, or florence:NAME in the cache",
            )
        self._processor, self._model = _load(weights)
        self._tokenizer = self._processor.tokenizer
        tokens = self._tokenizer.convert_tokens_to_ids(
            [f"<loc_{number}>" for number in range(COORDINATE_BINS)]
        )
        self._bins = {token: number for number, token in enumerate(tokens)}
        if len(self._bins) != COORDINATE_BINS:
            raise ModelError(f"{weights}: not Florence-2: its words have no places")
        self._special = set(self._tokenizer.all_special_ids) - set(self._bins)
        self.name = Path(weights).expanduser().resolve().name

    def regions(self, photo: Image.Image) -> list[CaptionedRegion]:
        return list(self._read_regions(*self._answer(photo, REGIONS), photo.size))

    def captions(
        self, photo: Image.Image, boxes_xyxy: NDArray[np.float64]
    ) -> Iterator[ScoredCaption]:
        for box in boxes_xyxy / (photo.size * 2):
            places = (
                np.clip(np.floor(box * COORDINATE_BINS), 0, COORDINATE_BINS - 1)
                .astype(int)
                .tolist()
            )
            task = CAPTION + "".join(f"<loc_{place}>" for place in places)
            tokens, logprobs = self._answer(photo, task)
            words = [token for token in tokens if token not in self._bins]
            # A caption of no words would stop the run; this model has no better one.
            yield ScoredCaption(self._text(words) or "a thing", _mean_probability(logprobs))

    def _answer(self, photo: Image.Image, task: str) -> tuple[list[int], list[float]]:
        """The tokens of the answer without those that frame it, and the logarithms of their
        probabilities."""
        import torch

        inputs = self._processor(text=task, images=photo, return_tensors="pt")
        with torch.inference_mode():
            answer = self._model.generate(
                **inputs.to(self._model.device),
                max_new_tokens=MAX_ANSWER_TOKENS,
                num_beams=1,
                early_stopping=False,
                do_sample=False,
                return_dict_in_generate=True,
                output_scores=True,
            )
            logprobs = self._model.compute_transition_scores(
                answer.sequences, answer.scores, normalize_logits=True
            )[0].tolist()
        generated = answer.sequences[0, -len(logprobs) :].tolist()
        words = [
            (token, logprob)
            for token, logprob in zip(generated, logprobs, strict=True)
            if token not in self._special
        ]
        return [token for token, _ in words], [logprob for _, logprob in words]

    def _read_regions(
        self, tokens: Sequence[int], logprobs: Sequence[float], photo_size: tuple[int, int]
    ) -> Iterator[CaptionedRegion]:
        """Words, then four places for each box that they are about; and again. Boxes without words
        or without an inside are left out."""
        words: list[int] = []
        words_logprobs: list[float] = []
        places: list[int] = []
        places_logprobs: list[float] = []
        is_after_box = False
        for token, logprob in zip(tokens, logprobs, strict=True):
            if token not in self._bins:
                if is_after_box or places:
                    words, words_logprobs, places, places_logprobs = [], [], [], []
                words.append(token)
                words_logprobs.append(logprob)
                is_after_box = False
                continue
            places.append(self._bins[token])
            places_logprobs.append(logprob)
            if len(places) < 4:
                continue
            x0, y0, x1, y1 = places
            caption = self._text(words)
            if caption and x0 < x1 and y0 < y1:
                box = (np.array(places) + 0.5) / COORDINATE_BINS * (photo_size * 2)
                score = _mean_probability([*words_logprobs, *places_logprobs])
                yield CaptionedRegion(tuple(box.tolist()), caption, score)
            places, places_logprobs, is_after_box = [], [], True

    def _text(self, tokens: Sequence[int]) -> str:
        return str(self._tokenizer.decode(tokens, skip_special_tokens=True)).strip()


def _mean_probability(logprobs: Sequence[float]) -> float:
    """The geometric mean; 0 of nothing."""
    return math.exp(sum(logprobs) / len(logprobs)) if logprobs else 0.0


def _load(weights: str) -> tuple[Any, Any]:
    """Processor and model, from files of this machine alone."""
    os.environ.setdefault("HF_HUB_OFFLINE", "1")
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        import torch
        import transformers
    except ImportError as error:
        raise MissingExtra(f"Florence-2 needs {error.name}", extra="florence") from error
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    place = Path(weights).expanduser()
    source = str(place) if place.is_dir() else weights
    device = "cuda" if torch.cuda.is_available() else "cpu"
    try:
        processor = transformers.Florence2Processor.from_pretrained(source, local_files_only=True)
        model = transformers.Florence2ForConditionalGeneration.from_pretrained(
            source, local_files_only=True, use_safetensors=True
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        reason = one_line(str(error).strip().partition("\n")[0])
        raise ModelError(
            f"{weights}: no weights of Florence-2 that transformers can load: {reason}",
            hint="a folder with its files, or a name in the cache; nothing is fetched",
        ) from error
    return processor, model.to(device).eval()
