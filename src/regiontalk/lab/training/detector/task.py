"""Training the FCLN: its data, net and losses as a `Task`."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import torch
from torch import Tensor, nn

from regiontalk.errors import UsageError
from regiontalk.lab.data.records import Dataset
from regiontalk.lab.nets.alignment import AlignmentNet
from regiontalk.lab.nets.fcln import FCLN, Output
from regiontalk.lab.nets.localization import LearnedProposals, Proposals
from regiontalk.lab.nets.vit import ViT
from regiontalk.lab.nets.weights import load_backbone
from regiontalk.lab.training.checkpoints import COMPANION
from regiontalk.lab.training.detector.batches import Batch, Plan, Source, TrainingBatches
from regiontalk.lab.training.detector.evaluation import draw_samples, evaluate_net
from regiontalk.lab.training.detector.losses import (
    caption_loss,
    counted_words,
    final_losses,
    proposal_losses,
)
from regiontalk.lab.training.detector.photo_sentences import (
    SentencePicker,
    inference_codes,
    sentence_loss,
)
from regiontalk.lab.training.detector.targets import (
    CaptionTargets,
    Sample,
    Truths,
    inference_proposals,
    sample_anchors,
    sample_proposals,
    sample_truths,
)
from regiontalk.lab.training.detector.teacher import (
    Teacher,
    freeze_all_but_backbone,
    imitation_losses,
)
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.detector import FCLNRecipe
from regiontalk.lab.training.task import Skip, Task
from regiontalk.language.vocabulary import LENGTH_STYLE, Vocabulary


def styles_of(recipe: FCLNRecipe) -> tuple[str, ...]:
    """All styles in the order they are named; the first is what a caption is asked for in."""
    styles = dict.fromkeys(chain.from_iterable(data.styles.values() for data in recipe.data))
    return tuple(style for style in styles if style != LENGTH_STYLE)


@dataclass
class FCLNTask(Task):
    recipe: FCLNRecipe
    words: Vocabulary
    net: FCLN
    sources: list[Source]
    picker: SentencePicker | None = None
    teacher: Teacher | None = None

    @classmethod
    def begin(cls, recipe: FCLNRecipe) -> FCLNTask:
        """A new run: the vocabulary from the training photos' phrases and the backbone from
        ImageNet; or words and net of the model that the recipe starts from; or a student, which has
        its teacher's words and layers."""
        for data in recipe.data:
            if not Path(data.path).is_dir():
                raise UsageError(
                    f"{data.path}: no such data set", hint="regiontalk data prepare makes one"
                )
        sources = [Source(data, "train", recipe.vocabulary.cleaning) for data in recipe.data]
        words = Vocabulary.build(
            chain.from_iterable(source.texts() for source in sources),
            recipe.vocabulary.cleaning,
            recipe.vocabulary.smallest_count,
            styles_of(recipe),
            recipe.vocabulary.lengths,
        )
        torch.manual_seed(recipe.run.seed)
        picker = teacher = None
        if recipe.init_from is not None:
            from regiontalk.lab.export.pretrained import (
                load_pretrained,
            )  # needs onnx, as few parts of training do

            pretrained = load_pretrained(recipe.init_from)
            recipe = pretrained.adapt(recipe)
            words = pretrained.extend(words)
            net = FCLN(recipe.net, len(words), words.starts)
            pretrained.fill(net, words)
        elif recipe.teacher is not None:
            teacher = Teacher.load(recipe.teacher, recipe)
            recipe, net = teacher.student(recipe)
            words = teacher.words
        else:
            net = FCLN(recipe.net, len(words), words.starts)
        if recipe.backbone_weights is not None:
            load_backbone(net.backbone, recipe.net.backbone, recipe.backbone_weights)
        if recipe.sentences is not None:
            picker = SentencePicker.build(recipe.sentences, [source.dataset for source in sources])
            net.add_module(
                COMPANION,
                picker.build_net(recipe.net.recognition.code + net.backbone.deep_channels),
            )
        return cls(recipe, words, net, sources, picker, teacher)

    def data_summary(self) -> str:
        return ", ".join(f"{len(source)} photos of {source.config.path}" for source in self.sources)

    def batches(self, rank: int, ranks: int) -> TrainingBatches:
        run = self.recipe.run
        if run.cache_photos:
            largest = math.ceil(self.recipe.net.input_size * self.recipe.augmentation.zoom)
            for source in self.sources:
                source.remember_photos(largest)
        plan = Plan(self.sources, run.steps, run.batch, run.seed)
        size = self.recipe.net.input_size
        pad_to = self.net.pad_to
        return TrainingBatches(
            plan, self.words, size, pad_to, self.recipe.augmentation, rank, ranks, self.picker
        )

    def steps_per_epoch(self) -> float:
        """Steps of one pass over the first data set at its first share."""
        shares = [data.share for data in self.recipe.data]
        return len(self.sources[0]) / (self.recipe.run.batch * shares[0] / sum(shares))

    def parameter_groups(self) -> dict[str, list[tuple[str, torch.nn.Parameter]]]:
        """Backbone and the rest, which have optimisers of their own (DenseCap 3.3).

        The new layers on top of a pretrained transformer learn with the rest: its own rates are too
        low for them.
        """
        new = ViT.new_layers if isinstance(self.net.backbone, ViT) else ()
        groups: dict[str, list[tuple[str, torch.nn.Parameter]]] = {"backbone": [], "rest": []}
        for name, parameter in self.net.named_parameters():
            part, layer, *_ = name.split(".", 2)
            pretrained = part == "backbone" and layer not in new
            groups["backbone" if pretrained else "rest"].append((name, parameter))
        return groups

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        groups = self.parameter_groups()
        backbone = self.net.backbone
        depth = (
            (lambda name: backbone.depth(name.removeprefix("backbone.")))
            if isinstance(backbone, ViT)
            else None
        )
        optimizers = {
            "backbone": build_optimizer(groups["backbone"], self.recipe.backbone_optimizer, depth)
        }
        if self.teacher is None:  # else there is nothing but the backbone to learn
            optimizers["rest"] = build_optimizer(groups["rest"], self.recipe.optimizer)
        return optimizers

    def backbone_from(self) -> int:
        """The step from which on the backbone learns."""
        return round(self.recipe.schedule.backbone_from_epoch * self.steps_per_epoch())

    def prepare_step(self, step: int) -> None:
        schedule = self.recipe.schedule
        backbone = self.net.backbone
        waits = step < self.backbone_from()
        self.net.train()
        for parameter in backbone.parameters():
            parameter.requires_grad_(not waits)
        if schedule.freeze_first_layers:
            for layer in backbone.first_layers():
                layer.requires_grad_(False)
        if schedule.freeze_batchnorm or waits:
            for module in backbone.modules():
                if isinstance(module, nn.BatchNorm2d):
                    module.eval()
        if self.teacher is not None:
            freeze_all_but_backbone(self.net)

    def losses(self, batch: Batch) -> dict[str, Tensor]:
        """The five losses of a batch, not yet weighted, and those of the recipe's `[sentences]` or
        `teacher`."""
        sizes = batch.sizes
        truths = batch.truths
        config = self.recipe.losses
        images = batch.images.float()
        output = self.net(images, sizes, lambda proposals: self._choose(proposals, batch))
        regions = output.regions
        losses = {
            "caption": caption_loss(output.word_logits, regions.captions, len(batch.names), config)
        }
        losses |= final_losses(
            output.recognized, regions.sample, regions.at_inference, truths, config
        )
        if output.proposals is not None:
            sample = regions.sample
            if self.recipe.anchor_sampler is not None:
                seeds = [seed + 1 for seed in batch.seeds]
                sample = sample_anchors(
                    output.proposals, truths, sizes, seeds, self.recipe.anchor_sampler
                )
            losses |= proposal_losses(output.proposals, sample, truths, config)
        if self.picker is not None:
            losses["contrastive"] = self._sentence_loss(output, batch)
        if self.teacher is not None:
            losses |= imitation_losses(output, self.teacher.answer(images, sizes, regions), sizes)
        return losses

    def _sentence_loss(self, output: Output[TrainingRegions], batch: Batch) -> Tensor:
        companion = self.net.get_submodule(COMPANION)
        assert isinstance(companion, AlignmentNet)
        at_inference = output.regions.at_inference
        assert at_inference is not None
        if batch.sentences is None:
            # Zero, but with gradients, which the processes of a run must all have.
            sums = [parameter.sum() for parameter in companion.parameters()]
            return 0.0 * torch.stack(sums).sum()
        codes = inference_codes(self.net, output.deep, output.recognized, at_inference, batch.sizes)
        return sentence_loss(companion, codes, at_inference, batch.sentences)

    def _choose(self, learned: LearnedProposals | None, batch: Batch) -> TrainingRegions:
        """The regions that are recognised: a sample of the proposals, and what else the recipe asks
        for."""
        config = self.recipe.sampler
        proposals: Proposals | None = batch.proposals if learned is None else learned
        if proposals is None:
            sample = sample_truths(batch.truths, batch.seeds, config.regions)
        else:
            sample = sample_proposals(proposals, batch.truths, batch.sizes, batch.seeds, config)
        parts = [sample.boxes_xyxy]
        at_inference = None
        if config.add_ground_truth:
            parts.append(batch.truths.boxes_xyxy)
        if config.inference_proposals and proposals is not None:
            at_inference = inference_proposals(
                proposals, batch.truths, batch.sizes, config, self.recipe.prediction
            )
            parts.append(at_inference.boxes_xyxy)
        boxes_xyxy = torch.cat(parts, dim=1)
        captions = self._captioned(sample, boxes_xyxy.shape[1], batch.truths)
        return TrainingRegions(boxes_xyxy, captions, sample, at_inference)

    def weight(self, name: str) -> float:
        return float(getattr(self.recipe.losses, name))

    def _captioned(self, sample: Sample, regions: int, truths: Truths) -> CaptionTargets:
        """The regions that have captions, of so many in each photo: the positives, and the true
        regions where the recipe adds them."""
        positive = sample.positive
        truth = sample.truth
        if self.recipe.sampler.add_ground_truth:
            positive = torch.cat([positive, truths.valid], dim=1)
            every_truth = torch.arange(truths.valid.shape[1], device=truth.device).expand_as(
                truths.valid
            )
            truth = torch.cat([truth, every_truth], dim=1)
        photos, places = positive.nonzero(as_tuple=True)
        numbers = truth[photos, places]
        words = truths.tokens[photos, numbers]
        fed = torch.cat([truths.starts[photos, numbers][:, None], words[:, :-1]], dim=1)
        rows = photos * regions + places
        counted = counted_words(words, self.recipe.losses)
        return CaptionTargets(rows, photos, fed, words, counted, truths.weights[photos, numbers])

    def evaluate(
        self,
        net: FCLN,
        device: torch.device,  # noqa: ARG002
        picture: Path,
        skip: Skip,
    ) -> dict[str, float]:
        """Metrics on the first data set's dev photos, and a sheet of pictures."""
        run = self.recipe.run
        dataset = Dataset(self.recipe.data[0].path, "dev")
        if not len(dataset):
            return {}
        metrics, photos = evaluate_net(
            net, self.words, self.recipe.prediction, dataset, run.evaluate_photos, skip
        )
        if run.pictures:
            draw_samples(photos, dataset, run.pictures, picture)
        return metrics


@dataclass(frozen=True)
class TrainingRegions:
    """The regions of a batch that are recognised in training."""

    boxes_xyxy: Tensor
    """(N, B, 4) the sample's, then the true boxes, then the proposals at inference."""
    captions: CaptionTargets
    sample: Sample
    at_inference: Sample | None
