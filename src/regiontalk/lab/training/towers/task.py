"""Training two towers, photo and text: their data, net and losses as a `Task`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor, nn

from regiontalk.errors import UsageError
from regiontalk.lab.data.records import Dataset, evenly_spaced
from regiontalk.lab.evaluation.naming import named_regions, names_in
from regiontalk.lab.nets.text_tower import load_text_tower
from regiontalk.lab.nets.two_towers import PhotoVectors, TextVectors, TwoTowers
from regiontalk.lab.nets.vit import ViTTokens
from regiontalk.lab.nets.weights import load_backbone
from regiontalk.lab.training.detector.batches import Plan
from regiontalk.lab.training.heads.alignment import ranking_metrics
from regiontalk.lab.training.heads.ranking_losses import matching_loss
from regiontalk.lab.training.optimizers import build_optimizer
from regiontalk.lab.training.recipe.towers import ContrastiveRecipe
from regiontalk.lab.training.task import Skip, Task
from regiontalk.lab.training.towers.batches import (
    Pairs,
    TermPairs,
    TextSource,
    TowersBatch,
    TowersBatches,
)
from regiontalk.lab.training.towers.evaluation import RegionsOfPhoto, TowersModel, name_photos
from regiontalk.language.wordpiece import WordPieces


@dataclass
class ContrastiveTask(Task):
    recipe: ContrastiveRecipe
    words: WordPieces
    net: TwoTowers
    sources: list[TextSource]

    @classmethod
    def begin(cls, recipe: ContrastiveRecipe) -> ContrastiveTask:
        """A new run, from the pretrained weights that the recipe names."""
        for data in recipe.data:
            if not Path(data.path).is_dir():
                raise UsageError(
                    f"{data.path}: no such data set", hint="regiontalk data prepare makes one"
                )
        pieces = WordPieces.load(Path(recipe.pieces))
        torch.manual_seed(recipe.run.seed)
        net = TwoTowers(recipe.net, len(pieces))
        if recipe.backbone_weights is not None:
            load_backbone(net.photo, recipe.net.backbone, recipe.backbone_weights)
        if recipe.text_weights is not None:
            load_text_tower(net.text, Path(recipe.text_weights))
        if not recipe.text_optimizer.rate:
            net.text.requires_grad_(False)
        return cls(recipe, pieces, net, [TextSource(data) for data in recipe.data])

    def data_summary(self) -> str:
        return ", ".join(f"{len(source)} photos of {source.config.path}" for source in self.sources)

    def batches(self, rank: int, ranks: int) -> TowersBatches:
        run = self.recipe.run
        if run.cache_photos:
            for source in self.sources:
                source.remember_photos(run.cache_side)
        plan = Plan(self.sources, run.steps, run.batch, run.seed, sorted_together=1)
        return TowersBatches(plan, self.words, self.recipe, rank, ranks)

    def optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """One for each tower, and one for the layers on top of them."""
        groups: dict[str, list[tuple[str, nn.Parameter]]] = {"photo": [], "text": [], "rest": []}
        for name, parameter in self.net.named_parameters():
            part, _, rest = name.partition(".")
            if parameter.requires_grad:
                named = (rest, parameter) if part in groups else (name, parameter)
                groups[part if part in groups else "rest"].append(named)
        photo = self.net.photo
        depth = photo.depth if isinstance(photo, ViTTokens) else None
        config = self.recipe
        optimizers = {"photo": build_optimizer(groups["photo"], config.backbone_optimizer, depth)}
        if groups["text"]:
            text_depth = self.net.text.depth
            optimizers["text"] = build_optimizer(groups["text"], config.text_optimizer, text_depth)
        optimizers["rest"] = build_optimizer(groups["rest"], config.optimizer)
        return optimizers

    def prepare_step(self, step: int) -> None:  # noqa: ARG002
        self.net.train()
        if not self.recipe.text_optimizer.rate:
            self.net.text.eval()

    def losses(self, batch: TowersBatch) -> dict[str, Tensor]:
        """The losses of all terms that the recipe's data have and whose weight is not 0."""
        photos = self.net.read_photos(batch.images.float(), batch.boxes_xyxy)
        losses: dict[str, Tensor] = {}
        for term in TermPairs._fields:
            if any(getattr(data, term) for data in self.recipe.data):
                losses |= self._term_losses(term, getattr(batch.pairs, term), photos)
        return {name: loss for name, loss in losses.items() if self.weight(name)}

    def _term_losses(
        self, term: str, pairs: Pairs | None, photos: PhotoVectors
    ) -> dict[str, Tensor]:
        terms = [term, "words"] if term == "sentences" and self.weight("words") else [term]
        if not any(map(self.weight, terms)):
            return {}
        if pairs is None:
            # No photo of the batch has such a text. Zero, but with gradients, which the processes
            # of a run must all have.
            return {name: 0.0 * self.net.scale(name) for name in terms}
        texts = self.net.read_texts(pairs.texts)
        vectors = photos.boxes.flatten(0, 1)[pairs.rows]  # (K, D)
        with torch.autocast(vectors.device.type, enabled=False):
            scores = {term: vectors.float() @ texts.texts.float().T}  # (K, L)
        if "words" in terms:
            scores["words"] = self._word_scores(pairs, photos, texts)
        smoothing = self.recipe.losses.label_smoothing
        return {
            name: matching_loss(values.float(), pairs.matches, self.net.scale(name), smoothing)
            for name, values in scores.items()
        }

    def _word_scores(self, pairs: Pairs, photos: PhotoVectors, texts: TextVectors) -> Tensor:
        """The scores (K, L) of photos and sentences by words and patches."""
        numbers = pairs.rows // photos.boxes.shape[1]
        return self.net.word_scores(photos.patches[numbers], texts)

    def weight(self, name: str) -> float:
        return float(getattr(self.recipe.losses, name))

    def evaluate(
        self,
        net: TwoTowers,
        device: torch.device,
        picture: Path,  # noqa: ARG002
        skip: Skip,
    ) -> dict[str, float]:
        """Ranking of the first data set's dev photos, and the share of right names on the dev
        photos of all data sets with names; in percent. None where dev has nothing that
        `run.metric` is about."""
        model = TowersModel(net, self.words, device)
        metrics = self._ranking(model, skip)
        named = {
            f"named_{Path(data.path).name}": share
            for data in self.recipe.data
            if data.names and (share := self._share_named(model, data.path, skip)) is not None
        }
        if named:
            metrics |= {"named": sum(named.values()) / len(named), **named}
        return metrics if self.recipe.run.metric in metrics else {}

    def _ranking(self, model: TowersModel, skip: Skip) -> dict[str, float]:
        dataset = Dataset(self.recipe.data[0].path, "dev")
        numbers = evenly_spaced(len(dataset), self.recipe.run.evaluate_photos)
        records = [dataset[number] for number in numbers]
        if not any(record.sentences for record in records):
            return {}
        matrices = model.score_matrices(dataset, records, skip)
        metrics = {name: ranking_metrics(matrix) for name, matrix in matrices.items()}
        shares = {
            f"{'' if name == 'both' else name + '_'}r1": _mean_r1(values)
            for name, values in metrics.items()
        }
        return {**shares, **metrics["both"]}

    def _share_named(self, model: TowersModel, path: str, skip: Skip) -> float | None:
        """How many of the names of some dev photos are the nearest of all names of the data set's
        dev photos; None where there are none."""
        dataset = Dataset(path, "dev")
        records = [record for record in dataset if named_regions(record)]
        if not records:
            return None
        names = names_in(records)
        some = evenly_spaced(len(records), self.recipe.run.evaluate_photos)
        photos = [RegionsOfPhoto(records[index], named_regions(records[index])) for index in some]
        return float(name_photos(model, dataset, photos, names, skip)["right"])


def _mean_r1(metrics: dict[str, float]) -> float:
    return (metrics["image_to_text_r1"] + metrics["text_to_image_r1"]) / 2
