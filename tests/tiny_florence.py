"""A tiny Florence-2 of transformers' own classes, with weights at random, or taught one answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from PIL import Image
from tokenizers import pre_tokenizers
from transformers import (
    BartTokenizer,
    CLIPImageProcessorPil,
    Florence2Config,
    Florence2ForConditionalGeneration,
    Florence2Processor,
)

PLACES = [f"<loc_{place}>" for place in range(1000)]
SIDE = 64  # pixels
IMAGE_TOKENS = 5  # a cell of SIDE / 32, squared, and the mean of all
EVERY_TASK = {
    name: {}
    for name in ("pure_text", "description_with_bboxes", "bboxes", "ocr", "phrase_grounding")
}


def tiny_processor() -> Florence2Processor:
    """Words are single letters; every place is a token."""
    special = ["<s>", "<pad>", "</s>", "<unk>", "<mask>"]
    alphabet = [*special, *sorted(pre_tokenizers.ByteLevel.alphabet())]
    vocabulary = {token: number for number, token in enumerate(alphabet)}
    tokenizer = BartTokenizer(
        vocab=vocabulary, merges=[], extra_special_tokens={"image_token": "<image>"}
    )
    tokenizer.add_tokens(PLACES)
    size = {"height": SIDE, "width": SIDE}
    images = CLIPImageProcessorPil(size=size, crop_size=size, image_seq_length=IMAGE_TOKENS)
    return Florence2Processor(images, tokenizer, post_processor_config=EVERY_TASK)


def tiny_net(processor: Florence2Processor) -> Florence2ForConditionalGeneration:
    torch.manual_seed(0)
    tokenizer = processor.tokenizer
    vision = {
        "depths": [1, 1, 1, 1],
        "embed_dim": [8, 8, 8, 8],
        "num_heads": [1, 1, 1, 1],
        "num_groups": [1, 1, 1, 1],
        "window_size": 2,
        "projection_dim": 16,
    }
    text = {
        "model_type": "bart",
        "vocab_size": len(tokenizer),
        "d_model": 16,
        "encoder_layers": 1,
        "decoder_layers": 1,
        "encoder_attention_heads": 2,
        "decoder_attention_heads": 2,
        "encoder_ffn_dim": 16,
        "decoder_ffn_dim": 16,
        "max_position_embeddings": 1100,
    }
    special = {
        "bos_token_id": tokenizer.bos_token_id,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "decoder_start_token_id": tokenizer.eos_token_id,
    }
    config = Florence2Config(
        vision_config=vision,
        text_config={**text, **special},
        image_token_id=tokenizer.image_token_id,
        **special,
    )
    return Florence2ForConditionalGeneration(config).eval()


def teach(
    net: Florence2ForConditionalGeneration,
    processor: Florence2Processor,
    photo: Image.Image,
    answers: dict[str, str],
    steps: int = 60,
) -> None:
    """Until it gives these answers to these tasks, about this photo."""
    net.requires_grad_(True).train()
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    lessons: list[tuple[dict[str, Any], torch.Tensor]] = []
    for task, answer in answers.items():
        labels = processor.tokenizer(answer, return_tensors="pt").input_ids
        lessons.append((processor(text=task, images=photo, return_tensors="pt"), labels))
    for _ in range(steps):
        loss = sum(net(**inputs, labels=labels).loss for inputs, labels in lessons)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    net.eval()


def write(folder: Path, photo: Image.Image, answers: dict[str, str]) -> None:
    """A folder as transformers saves it."""
    processor = tiny_processor()
    net = tiny_net(processor)
    teach(net, processor, photo, answers)
    processor.save_pretrained(folder)
    net.save_pretrained(folder)
