"""Layers that several backbones share."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from regiontalk.lab.nets.layers import SameConv


@pytest.mark.parametrize(("kernel", "stride"), [(3, 1), (5, 1), (3, 2), (5, 2)])
def test_padding_is_tensorflows_same(kernel, stride):
    conv = SameConv(1, 1, kernel, stride, active=False).eval()
    nn.init.ones_(conv.conv.weight)
    size, out = 8, 8 // stride
    found = conv(torch.ones(1, 1, size, size)) * np.sqrt(1 + 1e-3)
    total = max((out - 1) * stride + kernel - size, 0)
    padded = np.pad(np.ones((size, size)), (total // 2, total - total // 2))
    expected = [
        [
            padded[i * stride : i * stride + kernel, j * stride : j * stride + kernel].sum()
            for j in range(out)
        ]
        for i in range(out)
    ]
    np.testing.assert_allclose(found[0, 0].detach(), expected, rtol=1e-5)
