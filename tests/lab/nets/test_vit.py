"""The transformer backbone: positions and attention follow the photo, not the padded canvas."""

from __future__ import annotations

import pytest
import torch
from torch.nn import functional as F

from regiontalk.lab.nets.vit import DEPTH, POSITION_GRID_SIDE, WIDTH, ViT


@pytest.fixture(scope="module")
def net() -> ViT:
    torch.manual_seed(0)
    made = ViT(16, skip=0.4).eval()
    torch.nn.init.normal_(made.positions)
    torch.nn.init.normal_(made.class_token)
    return made.requires_grad_(False)


def sizes(*pairs: tuple[int, int]) -> torch.Tensor:
    return torch.tensor(pairs, dtype=torch.float32)


def test_photos_of_a_batch_are_seen_as_if_alone(net: ViT) -> None:
    """All but the convolution on top, whose cells at the border of a photo see the padding beside
    it."""
    torch.manual_seed(1)
    canvas = torch.rand(2, 3, 96, 128) * 255
    _, together = net(canvas, sizes((64, 90), (128, 64)))
    _, first = net(canvas[:1, :, :96, :64], sizes((64, 90)))
    _, second = net(canvas[1:, :, :64, :128], sizes((128, 64)))
    torch.testing.assert_close(together[:1, :, :, :4], first, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(together[1:, :, :4], second, rtol=1e-4, atol=1e-4)


def test_photos_that_fill_their_images_need_no_sizes(net: ViT) -> None:
    torch.manual_seed(2)
    images = torch.rand(2, 3, 48, 64) * 255
    _, expected = net(images, sizes((64, 48), (64, 48)))
    class_token, patches = net.class_and_patches(images)
    torch.testing.assert_close(patches, expected, rtol=1e-4, atol=1e-4)
    alone, _ = net.class_and_patches(images[1:])
    torch.testing.assert_close(class_token[1:], alone, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(("width", "height"), [(128, 64), (64, 96), (16, 1024)])
def test_the_grid_of_positions_is_stretched_over_the_photo(
    net: ViT, width: int, height: int
) -> None:
    rows, columns = height // 16, width // 16
    grid = net.positions.permute(2, 0, 1)[None]  # (1, E, 37, 37)
    expected = F.interpolate(grid, size=(rows, columns), mode="bilinear", align_corners=False)[
        0
    ].permute(1, 2, 0)
    found = net._positions(sizes((32, 32), (width, height)), rows + 2, columns + 3)
    assert found.shape == (2, rows + 2, columns + 3, WIDTH)
    torch.testing.assert_close(found[1, :rows, :columns], expected, rtol=1e-4, atol=1e-4)


def test_positions_of_a_photo_that_ends_inside_a_cell(net: ViT) -> None:
    """A cell has the position of its centre; outside the photo there are none but the last."""
    found = net._positions(sizes((40, 40)), 3, 3)[0]
    torch.testing.assert_close(found[2, 2], net.positions[-1, -1])  # its centre is at 40 of 40
    point = 24 / 40 * POSITION_GRID_SIDE - 0.5  # of the second cell, in cells of the stored grid
    before, after = 1 - point % 1, point % 1
    rows = before * net.positions[int(point)] + after * net.positions[int(point) + 1]
    torch.testing.assert_close(
        found[1, 1], before * rows[int(point)] + after * rows[int(point) + 1]
    )


def test_a_cell_stands_for_its_own_pixels(net: ViT) -> None:
    torch.manual_seed(2)
    photo = torch.rand(1, 3, 96, 96) * 255
    painted = photo.clone()
    painted[:, :, 64:80, 32:48] = 255 - painted[:, :, 64:80, 32:48]  # row 4, column 2
    whole = sizes((96, 96))
    change = (net(painted, whole)[1] - net(photo, whole)[1]).abs().sum(dim=1)[0]
    assert divmod(int(change.argmax()), 6) == (4, 2)


def test_later_blocks_are_skipped_more_often_and_only_in_training(net: ViT) -> None:
    skips = [block.skip for block in net.blocks]
    assert skips[0] == 0
    assert skips[-1] == pytest.approx(0.4)
    assert skips == sorted(skips)
    block, tokens = net.blocks[-1], torch.rand(300, 2, WIDTH)
    torch.testing.assert_close(block(tokens, None), block(tokens, None))
    torch.manual_seed(3)
    block.train()
    unchanged = (block(tokens, None) == tokens).flatten(1).all(dim=1).float().mean()
    block.eval()
    assert 0.08 < unchanged < 0.25  # both halves skipped: 0.4 · 0.4


def test_depth_counts_from_the_end(net: ViT) -> None:
    assert [net.depth(f"blocks.{n}.attn.qkv.weight") for n in (0, 5, 11)] == [DEPTH, DEPTH - 5, 1]
    assert net.depth("norm.weight") == net.depth("mix.conv.weight") == 0
    assert {net.depth(name) for name in ("patches.weight", "class_token", "positions")} == {
        DEPTH + 1
    }
