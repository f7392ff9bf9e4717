"""EdgeBoxes (Zitnick & Dollár 2014) through OpenCV: region proposals that need no training on
regions.

DenseCap uses them for systems without proposals of their own. Edges come from a structured-edge
model if the user has one (OpenCV's `model.yml`); otherwise they are gradients of the photo.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray
from PIL import Image

from regiontalk import boxes
from regiontalk.errors import MissingExtra, UsageError
from regiontalk.lab.data.region_files import ScoredBoxes, scaled

LONG_SIDE = 160  # of the photo for gradients: small textures disappear, and it is fast
BLUR_SIGMA = 1.5  # σ in those pixels
STRONG_PERCENTILE = 99.0  # the percentile of gradients that counts as a full edge
Map = NDArray[np.float32]


class EdgeBoxes:
    """Boxes that fully contain many contours, best first."""

    def __init__(self, limit: int = 300, edge_model: Path | None = None) -> None:
        self.detector: Any = None
        if not hasattr(
            cv2, "ximgproc"
        ):  # opencv-python lacks it, and hides opencv-contrib-python if both are installed
            raise MissingExtra(
                "EdgeBoxes need OpenCV with its contrib modules; this one has none",
                extra="edgeboxes",
            )
        if edge_model is None:
            self.name = "EdgeBoxes on gradient edges"
            self.finder: Any = cv2.ximgproc.createEdgeBoxes(
                maxBoxes=limit, edgeMinMag=0.15, minBoxArea=130
            )
        else:
            self.name = "EdgeBoxes on structured edges"
            self.finder = cv2.ximgproc.createEdgeBoxes(maxBoxes=limit)
            try:
                self.detector = cv2.ximgproc.createStructuredEdgeDetection(str(edge_model))
            except cv2.error as error:
                raise UsageError(
                    f"{edge_model}: not a structured-edge model: {error.err}"
                ) from error

    def find(self, photo: Image.Image) -> ScoredBoxes:
        """Boxes in the photo's pixels; their scores s as s / (1 + s), so that none is above 1."""
        factor = 1.0 if self.detector is not None else min(1.0, LONG_SIDE / max(photo.size))
        width, height = (max(1, round(side * factor)) for side in photo.size)
        small = photo.convert("RGB").resize((width, height), Image.Resampling.BILINEAR)
        edges, normals = self._edges(np.asarray(small, dtype=np.float32) / np.float32(255))
        boxes_xywh, scores = self.finder.getBoundingBoxes(edges, normals)
        boxes_xyxy = boxes.xywh_to_xyxy(np.asarray(boxes_xywh, dtype=np.float64).reshape(-1, 4))
        scores = np.asarray(scores, dtype=np.float64).reshape(-1)
        scored = ScoredBoxes(boxes_xyxy.astype(np.float64), scores / (1 + scores))
        return scaled(scored, photo.width / width, photo.height / height)

    def _edges(self, pixels: Map) -> tuple[Map, Map]:
        """Thin edges from 0 to 1, and the direction across them in radians, (H, W) each."""
        if self.detector is None:
            return gradient_edges(pixels)
        edges = self.detector.detectEdges(pixels)
        normals = self.detector.computeOrientation(edges)
        return self.detector.edgesNms(edges, normals), normals


def gradient_edges(pixels: Map) -> tuple[Map, Map]:
    """The gradient of pixels (H, W, 3) in the channel that changes most, thinned to its ridges, and
    its direction."""
    smooth = cv2.GaussianBlur(pixels, (0, 0), BLUR_SIGMA)
    across = cv2.Sobel(smooth, cv2.CV_32F, 1, 0)
    down = cv2.Sobel(smooth, cv2.CV_32F, 0, 1)
    strength = np.hypot(across, down)  # (H, W, 3)
    channel = strength.argmax(axis=2)[..., None]
    across, down, edges = (
        np.take_along_axis(part, channel, 2)[..., 0] for part in (across, down, strength)
    )
    edges = np.minimum(edges / max(float(np.percentile(edges, STRONG_PERCENTILE)), 1e-6), 1).astype(
        np.float32
    )
    normals = np.arctan2(down, across)
    return _ridges(edges, normals), np.mod(normals, np.pi).astype(np.float32)


def _ridges(edges: Map, normals: Map) -> Map:
    """Edges (H, W) after non-maximum suppression across their direction."""
    y, x = np.indices(edges.shape, dtype=np.float32)
    dx, dy = np.cos(normals), np.sin(normals)
    before, after = (cv2.remap(edges, x + s * dx, y + s * dy, cv2.INTER_LINEAR) for s in (-1, 1))
    return np.where((edges >= before) & (edges >= after), edges, 0).astype(np.float32)
