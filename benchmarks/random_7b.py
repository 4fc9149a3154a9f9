"""A folder with the configuration, tokenizer and processor of a Qwen2.5-VL of 7 billion parameters, to time engines.

    python benchmarks/random_7b.py FOLDER [--weights] [--answer 200]

Sizes are those of Qwen/Qwen2.5-VL-7B-Instruct (config.json, preprocessor_config.json), the limits of a frame those of
qwen-vl-utils. There are no weights: `engine_speed.py --random-weights` has vLLM draw them (`load_format="dummy"`). A
training reads them from files: with `--weights` they are drawn on the GPU and written, 16.6 GB in bfloat16. The
tokenizer is tempoloc-tiny's, filled up to the size of the vocabulary with words that no text has.

Random weights never say that an answer ends. `--answer N` gives as many tokens that meaning as let an answer end after
about N: a job that allows 4,096 tokens then takes as long as with a model that gives short answers.
"""

from __future__ import annotations

import argparse
import json
import shutil
from pathlib import Path
from typing import Any

from tempoloc_nb.core.settings import data_dir
from tempoloc_nb.video.budget import FRAME_LEAST, FRAME_MOST

VOCABULARY = 152_064
TEXT = {
    "hidden_size": 3584, "intermediate_size": 18_944, "num_attention_heads": 28, "num_key_value_heads": 4,
    "num_hidden_layers": 28, "layer_types": ["full_attention"] * 28, "max_position_embeddings": 128_000,
    "rms_norm_eps": 1e-6, "vocab_size": VOCABULARY, "tie_word_embeddings": False, "dtype": "bfloat16",
}  # fmt: skip
VISION = {
    "depth": 32, "hidden_size": 1280, "intermediate_size": 3420, "num_heads": 16, "out_hidden_size": 3584,
    "fullatt_block_indexes": [7, 15, 23, 31], "tokens_per_second": 2, "window_size": 112, "dtype": "bfloat16",
}  # fmt: skip
IMAGES = {"shortest_edge": 56 * 56, "longest_edge": 12_845_056}
VIDEOS = {"shortest_edge": FRAME_LEAST, "longest_edge": FRAME_MOST}


def rewrite(path: Path, change: Any) -> None:
    """Apply `change` to the JSON object in a file."""
    found = json.loads(path.read_text(encoding="utf-8"))
    change(found)
    path.write_text(json.dumps(found), encoding="utf-8")


def configure(config: dict[str, Any]) -> None:
    config["text_config"].update(TEXT)
    for key in ("rope_parameters", "rope_scaling"):
        config["text_config"][key]["mrope_section"] = [16, 24, 24]
    config["vision_config"].update(VISION)
    config["tie_word_embeddings"] = False


def fill_vocabulary(tokenizer: dict[str, Any]) -> None:
    words = tokenizer["model"]["vocab"]
    words.update({token["content"]: token["id"] for token in tokenizer["added_tokens"]})
    taken = set(words.values())
    words.update({f"x{i}q": i for i in range(VOCABULARY) if i not in taken})


def end_answers(generation: dict[str, Any], after: int) -> None:
    ends = generation["eos_token_id"]
    ends = ends if isinstance(ends, list) else [ends]
    # the last words of the vocabulary, which no text has
    generation["eos_token_id"] = ends + list(range(VOCABULARY - VOCABULARY // after, VOCABULARY))


def draw_weights(folder: Path, device: str = "cuda") -> None:
    """Random weights of the configuration in `folder`, in bfloat16, written there under the hub's names."""
    import torch

    from tempoloc_nb.core.optional import import_transformers

    transformers = import_transformers()
    with torch.device(device):
        config = transformers.AutoConfig.from_pretrained(folder)
        model = transformers.AutoModelForImageTextToText.from_config(config, dtype=torch.bfloat16)
    (folder / "model.safetensors").unlink()
    kept = {name: (folder / name).read_text(encoding="utf-8") for name in ("config.json", "generation_config.json")}
    model.save_pretrained(folder, max_shard_size="4GB")
    for name, text in kept.items():
        (folder / name).write_text(text, encoding="utf-8")


def main(folder: Path, weights: bool, answer: int | None) -> None:
    from safetensors.numpy import save_file

    source = data_dir() / "models" / "tempoloc-tiny"
    shutil.copytree(source, folder, ignore=shutil.ignore_patterns("*.safetensors", "README.md"), dirs_exist_ok=True)
    rewrite(folder / "config.json", configure)
    rewrite(folder / "preprocessor_config.json", lambda found: found.update(size=IMAGES))
    rewrite(folder / "video_preprocessor_config.json", lambda found: found.update(size=VIDEOS))
    rewrite(
        folder / "processor_config.json",
        lambda found: (found["image_processor"].update(size=IMAGES), found["video_processor"].update(size=VIDEOS)),
    )
    rewrite(folder / "tokenizer.json", fill_vocabulary)
    if answer:
        rewrite(folder / "generation_config.json", lambda found: end_answers(found, answer))
    import numpy as np

    save_file({"none": np.zeros(1, dtype=np.float32)}, folder / "model.safetensors")
    if weights:
        draw_weights(folder)
    print(folder)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    parser.add_argument("--weights", action="store_true", help="draw weights on the GPU, and write them")
    parser.add_argument("--answer", type=int, metavar="N", help="let answers end after about so many tokens")
    given = parser.parse_args()
    main(given.folder, given.weights, given.answer)
