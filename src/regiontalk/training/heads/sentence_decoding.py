"""Sentences of coded photos and regions by a net in training, and how good they are."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch

from regiontalk import decoding
from regiontalk.codes.store import CodedPhotos
from regiontalk.data.records import Record
from regiontalk.errors import ModelError
from regiontalk.evaluation.captions import evaluate_captions
from regiontalk.nets.multimodal_rnn import MultimodalRNN, State
from regiontalk.training.heads.caption_targets import WHOLE_PHOTO, Subject, shown
from regiontalk.types import Description, ImageRegions, Region
from regiontalk.vocabulary import Vocabulary

AT_ONCE = 128  # subjects


@dataclass(frozen=True)
class Describer:
    """A net with its words, decoding through the same functions as an exported model."""

    net: MultimodalRNN
    words: Vocabulary
    coded: CodedPhotos
    device: torch.device
    longest: int = 20

    def __call__(self, subjects: Sequence[Subject], beam: int = 1) -> list[decoding.Caption]:
        """The likeliest sentence found for every subject."""
        return [best[0] for best in self.best(subjects, beam, 1)]

    def best(self, subjects: Sequence[Subject], beam: int, count: int) -> Iterator[list[decoding.Caption]]:
        """The `count` likeliest sentences found for every subject."""
        self.net.eval()
        for start in range(0, len(subjects), AT_ONCE):
            state, words = self.begin(subjects[start : start + AT_ONCE]), self.words.start()
            if beam == 1:
                yield from ([one] for one in decoding.greedy(self.step, state, words, self.longest))
            else:
                yield from decoding.beam_search(self.step, state, words, self.longest, beam, count)

    @torch.inference_mode()
    def begin(self, subjects: Sequence[Subject]) -> decoding.State:
        given = (part.to(self.device) for part in shown(self.coded, subjects, self.net.config.views))
        return tuple(part.cpu().numpy() for part in self.net.begin(self.net.look(*given)))

    @torch.inference_mode()
    def step(self, tokens: decoding.Integers, state: decoding.State) -> tuple[decoding.Floats, decoding.State]:
        given = State(*(torch.from_numpy(part).to(self.device) for part in state))
        logprobs, new = self.net.step(torch.from_numpy(tokens).to(self.device), given)
        return logprobs.cpu().numpy(), tuple(part.cpu().numpy() for part in new)


@dataclass(frozen=True)
class DatasetDescriber:
    """A checkpoint's sentences for the photos of a data set, from their codes."""

    describer: Describer
    place: str
    """The file of codes, for messages."""
    model: str
    beam: int

    @classmethod
    def load(cls, checkpoint: Path, codes: Path, device: torch.device) -> DatasetDescriber:
        from regiontalk.training.heads.sentences import load_sentence_net

        net, words, recipe, state = load_sentence_net(checkpoint, device)
        coded = CodedPhotos.load(codes)
        if coded.detector != state["detector"]:
            raise ModelError(f"{codes}: codes of another detector than {checkpoint} was trained on")
        settings = recipe.prediction
        return cls(Describer(net, words, coded, device, settings.longest), str(codes), checkpoint.name, settings.beam)

    def photos(self, records: Iterable[Record], beam: int | None) -> Iterator[Description]:
        """A sentence for each whole photo."""
        told = list(records)
        numbers = self.describer.coded.find(told, self.place)
        subjects = [Subject(int(number), WHOLE_PHOTO, ()) for number in numbers]
        for record, said in zip(told, self.describer(subjects, beam or self.beam), strict=True):
            sentence = self.describer.words.decode(said.tokens)
            yield Description(record.image, record.width, record.height, self.model, sentence, said.logprob)

    def regions(self, records: Iterable[Record], beam: int | None) -> Iterator[ImageRegions]:
        """A sentence for each row of codes but the whole photo's."""
        coded, told = self.describer.coded, list(records)
        numbers = coded.find(told, self.place).tolist()
        subjects = [Subject(number, row, ()) for number in numbers for row in range(1, int(coded.counts[number]))]
        said = iter(zip(subjects, self.describer(subjects, beam or self.beam), strict=True))
        for record, number in zip(told, numbers, strict=True):
            found = [self._region(*next(said)) for _ in range(1, int(coded.counts[number]))]
            yield ImageRegions(record.image, record.width, record.height, self.model, tuple(found))

    def _region(self, subject: Subject, said: decoding.Caption) -> Region:
        coded = self.describer.coded
        x0, y0, x1, y1 = coded.boxes_xyxy[subject.photo, subject.row].tolist()
        score = float(coded.scores[subject.photo, subject.row])
        return Region((x0, y0, x1, y1), score, self.describer.words.decode(said.tokens), said.logprob)


def score_descriptions(describer: Describer, subjects: Sequence[Subject], beam: int = 1) -> dict[str, float]:
    """CIDEr and BLEU of what is said of the subjects against their own texts."""
    said = [describer.words.decode(caption.tokens) for caption in describer(subjects, beam)]
    references = [[text.words for text in subject.texts] for subject in subjects]
    scores = evaluate_captions(zip(said, references, strict=True))
    return {"cider": scores.cider, "bleu1": scores.bleu[0], "bleu4": scores.bleu[3]}


def perplexity(losses: Sequence[float]) -> float:
    """Of the mean loss of a word."""
    return math.exp(min(float(np.mean(losses)), 50.0))
