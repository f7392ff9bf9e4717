"""Two towers: vectors of photos, boxes, texts and words, and the score of words and patches."""

from __future__ import annotations

import pytest
import torch

from regiontalk.lab.nets.alignment import Texts
from regiontalk.lab.nets.text_tower import TextTowerConfig
from regiontalk.lab.nets.two_towers import LARGEST_SCALE, TextVectors, TwoTowers, TwoTowersConfig
from regiontalk.lab.nets.vit import ViTTokens

SIDE = 64


def small_net(backbone: str = "tiny") -> TwoTowers:
    torch.manual_seed(0)
    text = TextTowerConfig(blocks=1, width=16, heads=2, positions=12)
    config = TwoTowersConfig(backbone=backbone, input_size=SIDE, size=16, text=text)  # type: ignore[arg-type]
    net = TwoTowers(config, tokens=20).eval().requires_grad_(False)
    torch.nn.init.normal_(net.word_weight.weight)
    return net


@pytest.fixture(scope="module")
def net() -> TwoTowers:
    return small_net()


def boxes(*xyxy: tuple[float, float, float, float]) -> torch.Tensor:
    return torch.tensor([[(0.0, 0.0, SIDE, SIDE), *xyxy]])


def texts(*rows: list[int]) -> Texts:
    longest = max(map(len, rows))
    padded = [[*row, *[0] * (longest - len(row))] for row in rows]
    return Texts(torch.tensor(padded), torch.tensor([len(row) for row in rows]))


def test_all_vectors_have_length_1(net: TwoTowers) -> None:
    photos = net.read_photos(torch.rand(1, 3, SIDE, SIDE) * 255, boxes((0, 0, 20, 30)))
    read = net.read_texts(texts([2, 7, 8, 3], [2, 9, 3]))
    for vectors in (photos.boxes, photos.patches, read.texts, read.words):
        torch.testing.assert_close(vectors.norm(dim=-1), torch.ones(vectors.shape[:-1]))
    assert photos.boxes.shape == (1, 2, 16)
    assert photos.patches.shape == (1, (SIDE // 16) ** 2, 16)


def test_a_region_is_the_mean_of_its_patches(net: TwoTowers) -> None:
    """A box around the centre of one patch has that patch's vector."""
    image = torch.rand(1, 3, SIDE, SIDE) * 255
    photos = net.read_photos(image, boxes((40, 24, 40.001, 24.001)))
    row, column = 1, 2
    expected = photos.patches[0, row * SIDE // 16 + column]
    torch.testing.assert_close(photos.boxes[0, 1], expected, rtol=1e-3, atol=1e-3)


def test_photos_without_boxes(net: TwoTowers) -> None:
    image = torch.rand(2, 3, SIDE, SIDE) * 255
    alone = net.read_photos(image, boxes().expand(2, -1, -1))
    with_a_box = net.read_photos(image, boxes((0, 0, 9, 9)).expand(2, -1, -1))
    torch.testing.assert_close(alone.boxes[:, 0], with_a_box.boxes[:, 0])


def test_texts_of_a_batch_are_read_as_if_alone(net: TwoTowers) -> None:
    together = net.read_texts(texts([2, 7, 8, 9, 3], [2, 5, 3]))
    alone = net.read_texts(texts([2, 5, 3]))
    assert together.lengths.tolist() == [3, 1]
    torch.testing.assert_close(together.texts[1:], alone.texts, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.words[3:], alone.words, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(together.weights[:3].sum(), torch.tensor(1.0))
    torch.testing.assert_close(alone.weights, torch.ones(1))


def test_a_text_without_words_scores_0(net: TwoTowers) -> None:
    read = net.read_texts(texts([2, 3], [2, 5, 3]))
    photos = net.read_photos(torch.rand(1, 3, SIDE, SIDE) * 255, boxes())
    scores = net.word_scores(photos.patches, read)
    assert scores.shape == (1, 2)
    assert scores[0, 0] == 0
    assert scores[0, 1] != 0


def test_words_score_by_their_best_patches() -> None:
    patches = torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.6, 0.8], [0.6, 0.8]]])  # (N, P, D)
    words = torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 1.0]])
    read = TextVectors(
        torch.zeros(2, 2), words, torch.tensor([0.25, 0.75, 1.0]), torch.tensor([2, 1])
    )
    scores = TwoTowers.word_scores(patches, read)
    expected = torch.tensor([[1.0, 1.0], [0.25 * 0.6 + 0.75 * 0.8, 0.8]])
    torch.testing.assert_close(scores, expected)


def test_temperatures_have_a_limit(net: TwoTowers) -> None:
    with torch.no_grad():
        net.log_scales["names"].fill_(50.0)
    assert net.scale("names") == LARGEST_SCALE
    assert net.scale("sentences") < LARGEST_SCALE


def test_the_photo_tower_of_the_package() -> None:
    """ViT-S gives a class token beside the patches, and both make the photo's vector."""
    net = small_net("vit-s")
    assert isinstance(net.photo, ViTTokens)
    image = torch.rand(1, 3, SIDE, SIDE) * 255
    before = net.read_photos(image, boxes())
    with torch.no_grad():
        net.photo_vector.weight[:, :384] = 0  # what it makes of the class token
    after = net.read_photos(image, boxes())
    assert not torch.allclose(before.boxes, after.boxes)
    torch.testing.assert_close(before.patches, after.patches)
