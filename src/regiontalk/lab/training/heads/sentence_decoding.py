"""Sentences of coded photos and regions by a multimodal RNN in torch, decoded as an exported model
decodes them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import torch

from regiontalk.inference import decoding
from regiontalk.inference.sentences import sentence_rules
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.data.records import Record
from regiontalk.lab.evaluation.captions import evaluate_captions
from regiontalk.lab.nets.multimodal_rnn import MultimodalRNN, State
from regiontalk.lab.training.checkpoints import load_sentence_net
from regiontalk.lab.training.heads.caption_targets import WHOLE_PHOTO, CaptionTarget, stack_codes
from regiontalk.language.vocabulary import Vocabulary
from regiontalk.models.settings import SentencePredictionConfig
from regiontalk.results import Description, ImageRegions, Region

AT_ONCE = 128  # targets


@dataclass(frozen=True)
class Describer:
    """A net with its vocabulary and the codes that it describes."""

    net: MultimodalRNN
    words: Vocabulary
    coded: CodedPhotos
    device: torch.device
    settings: SentencePredictionConfig = field(default_factory=SentencePredictionConfig)
    place: str = "codes"
    """The file of codes, for messages."""
    model: str = ""
    """Its name in results."""

    @classmethod
    def load(cls, checkpoint: Path, codes: Path, device: torch.device) -> Describer:
        trained = load_sentence_net(checkpoint, device)
        coded = CodedPhotos.load(codes)
        coded.check_detector(trained.state["detector"], checkpoint)
        return cls(
            trained.net,
            trained.words,
            coded,
            device,
            trained.recipe.prediction,
            str(codes),
            checkpoint.name,
        )

    def __call__(
        self, targets: Sequence[CaptionTarget], beam: int | None = None
    ) -> list[decoding.Caption]:
        """The best sentence found for every target; with the settings' beam, if none is given."""
        self.net.eval()
        found: list[decoding.Caption] = []
        rules = sentence_rules(self.settings, self.words)
        width = beam or self.settings.beam
        for start in range(0, len(targets), AT_ONCE):
            state = self.begin(targets[start : start + AT_ONCE])
            token = self.words.start()
            found += [
                best for best, *_ in decoding.beam_search(self.step, state, token, rules, width)
            ]
        return found

    @torch.inference_mode()
    def begin(self, targets: Sequence[CaptionTarget]) -> decoding.State:
        given = (
            part.to(self.device) for part in stack_codes(self.coded, targets, self.net.config.views)
        )
        return tuple(part.cpu().numpy() for part in self.net.begin(self.net.look(*given)))

    @torch.inference_mode()
    def step(
        self, tokens: decoding.Integers, state: decoding.State
    ) -> tuple[decoding.Floats, decoding.State]:
        given = State(*(torch.from_numpy(part).to(self.device) for part in state))
        logprobs, new = self.net.step(torch.from_numpy(tokens).to(self.device), given)
        return logprobs.cpu().numpy(), tuple(part.cpu().numpy() for part in new)

    def photos(self, records: Iterable[Record], beam: int | None) -> Iterator[Description]:
        """A sentence for each whole photo."""
        given = list(records)
        numbers = self.coded.find(given, self.place)
        targets = [CaptionTarget(int(number), WHOLE_PHOTO) for number in numbers]
        for record, said in zip(given, self(targets, beam), strict=True):
            sentence = self.words.decode(said.tokens)
            yield Description(
                record.image, record.width, record.height, self.model, sentence, said.logprob
            )

    def regions(self, records: Iterable[Record], beam: int | None) -> Iterator[ImageRegions]:
        """A sentence for each row of codes but the whole photo's."""
        coded = self.coded
        given = list(records)
        numbers = coded.find(given, self.place).tolist()
        targets = [
            CaptionTarget(number, row)
            for number in numbers
            for row in range(1, int(coded.counts[number]))
        ]
        said = iter(zip(targets, self(targets, beam), strict=True))
        for record, number in zip(given, numbers, strict=True):
            found = [self._region(*next(said)) for _ in range(1, int(coded.counts[number]))]
            yield ImageRegions(record.image, record.width, record.height, self.model, tuple(found))

    def _region(self, target: CaptionTarget, said: decoding.Caption) -> Region:
        x0, y0, x1, y1 = self.coded.boxes_xyxy[target.photo, target.row].tolist()
        score = float(self.coded.scores[target.photo, target.row])
        return Region((x0, y0, x1, y1), score, self.words.decode(said.tokens), said.logprob)


def score_descriptions(describer: Describer, targets: Sequence[CaptionTarget]) -> dict[str, float]:
    """CIDEr and BLEU of greedy sentences against the targets' own texts."""
    said = [describer.words.decode(caption.tokens) for caption in describer(targets, beam=1)]
    scores = evaluate_captions(zip(said, [target.texts for target in targets], strict=True))
    return {name: scores[name] for name in ("cider", "bleu1", "bleu4")}
