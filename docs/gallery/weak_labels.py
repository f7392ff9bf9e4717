"""Writes docs/gallery-weak-labels.md: what a region RNN that never saw a box with its phrase says
of the regions that the gallery shows, beside what the model in the package says.

python docs/gallery/weak_labels.py RUN     (of recipes/sentences-regions.toml, on codes of the package's model)
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np
from make import ROOT, SHOWN, name, read_sources

import regiontalk
from regiontalk.lab.codes.sentences import CodedTarget
from regiontalk.lab.codes.store import CodedPhotos
from regiontalk.lab.training.checkpoints import find_checkpoint, load_sentence_net
from regiontalk.lab.training.heads.evaluation import coded_sentences
from regiontalk.model import Model
from regiontalk.models.folder import detector_fingerprint, read_model_folder

PAGE = ROOT / "docs" / "gallery-weak-labels.md"

HEAD = """# Regions from weak labels

The regions that the [gallery](gallery.md) shows of {count} freely licensed photos, captioned by two models: the one in
the package (`{model}`), which learned phrases on boxes, and the multimodal RNN of `recipes/sentences-regions.toml`,
which never saw a box with its phrase: it learned snippets of sentences that an alignment net had given to regions
(Karpathy & Fei-Fei, section 3.2; [sentences.md](sentences.md#regions-without-labels)). Its snippets are parts of
sentences, so it may say "a dog runs" where the other says "a dog", or break off.

**Not from sentences alone:** both read the same region codes, and the detector that makes these codes was taught
phrases on boxes. What the RNN and the alignment net learned from sentences is which words belong to which codes.

No region was left out because of what was said of it. Made by `python docs/gallery/weak_labels.py RUN`.

"""


def main() -> None:
    sources, model = read_sources(), regiontalk.load()
    trained = load_sentence_net(find_checkpoint(Path(sys.argv[1])))
    detector = detector_fingerprint(read_model_folder(regiontalk.EMBEDDED).graphs)
    if trained.state["detector"] != detector:
        raise SystemExit(
            f"{sys.argv[1]}: trained on the codes of another detector than the package's"
        )
    parts = [HEAD.format(count=len(sources["photos"]), model=model.runtime.info.name)]
    for photo in sources["photos"]:
        captions, coded = look(model, photo, detector)
        targets = [CodedTarget(0, 1 + row) for row in range(len(captions))]
        said = coded_sentences(trained, coded)(targets)
        rows = "".join(
            f"| {ours} | {trained.words.decode(one.tokens)} |\n"
            for ours, one in zip(captions, said, strict=True)
        )
        parts.append(
            f"## {name(photo)}\n\n| from phrases on boxes | from snippets of sentences |\n|---|---|\n{rows}\n"
        )
    PAGE.write_text("".join(parts).rstrip() + "\n", encoding="utf-8")


def look(model: Model, photo: dict[str, Any], detector: str) -> tuple[list[str], CodedPhotos]:
    """The captions that the gallery shows, and the codes of their regions."""
    regions = model(ROOT / photo["file"], top=SHOWN).regions
    seen = model.codes(model.look(ROOT / photo["file"], boxes=[region.xyxy for region in regions]))
    coded = CodedPhotos(
        (name(photo),),
        np.array([len(seen.codes)]),
        seen.boxes_xyxy[None].astype(np.float32),
        seen.scores[None].astype(np.float32),
        seen.codes[None].astype(np.float16),
        detector,
    )
    return [region.caption for region in regions], coded


if __name__ == "__main__":
    main()
