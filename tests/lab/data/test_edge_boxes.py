"""EdgeBoxes: a thing on a plain ground is found."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import Image, ImageDraw

from regiontalk import boxes
from regiontalk.errors import MissingExtra, UsageError

pytest.importorskip("cv2")

from regiontalk.lab.data import edge_boxes
from regiontalk.lab.data.edge_boxes import EdgeBoxes, gradient_edges


def scene() -> Image.Image:
    photo = Image.new("RGB", (320, 240), (90, 120, 200))
    draw = ImageDraw.Draw(photo)
    draw.ellipse((40, 60, 140, 180), fill=(220, 60, 40))
    draw.rectangle((200, 100, 280, 160), fill=(240, 230, 80))
    return photo


def test_an_opencv_without_edge_boxes_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(edge_boxes.cv2, "ximgproc")
    with pytest.raises(MissingExtra, match="contrib"):
        EdgeBoxes()


def test_things_are_found_in_the_photos_pixels() -> None:
    finder = EdgeBoxes(limit=50)
    found = finder.find(scene())
    assert "gradient" in finder.name
    assert len(found.boxes_xyxy) == len(found.scores) <= 50
    assert (np.diff(found.scores) <= 0).all()
    assert ((found.scores > 0) & (found.scores < 1)).all()
    best = boxes.iou([[40, 60, 140, 180], [200, 100, 280, 160]], found.boxes_xyxy).max(axis=1)
    assert (best > 0.7).all()


def test_gradients_point_across_edges() -> None:
    pixels = np.zeros((20, 20, 3), dtype=np.float32)
    pixels[:, 10:, 1] = 1
    edges, normals = gradient_edges(pixels)
    assert set(np.argwhere(edges > 0)[:, 1]) <= {9, 10}, "one thin line"
    assert np.abs(np.sin(normals[edges > 0])).max() < 0.1


def test_an_even_photo_has_no_boxes() -> None:
    assert len(EdgeBoxes().find(Image.new("RGB", (64, 48), (5, 5, 5))).boxes_xyxy) == 0


def test_what_is_no_edge_model_is_said(tmp_path: Path) -> None:
    file = tmp_path / "model.yml"
    file.write_text("no model")
    with pytest.raises(UsageError, match="structured-edge model"):
        EdgeBoxes(edge_model=file)
