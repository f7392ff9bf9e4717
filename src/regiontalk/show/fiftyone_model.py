"""A model as FiftyOne takes models: it labels the photos of a FiftyOne data set."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from regiontalk.results import ImageRegions, import_package


def fiftyone_model(model: Callable[[Any], ImageRegions]) -> Any:
    """A `fiftyone.Model` that answers with `fiftyone.Detections`, photo by photo."""
    fiftyone = import_package("fiftyone", "fiftyone.Model")

    class FiftyOneModel(fiftyone.Model):  # type: ignore[misc, name-defined]
        media_type = "image"
        ragged_batches = True  # photos have different sizes
        transforms = None
        config = None  # FiftyOne itself applies `confidence_thresh` and `classes`
        preprocess = False

        def predict(self, arg: Any) -> Any:
            """`arg`: the photo as an array (height, width, 3)."""
            return model(arg).to_fiftyone()

    return FiftyOneModel()
