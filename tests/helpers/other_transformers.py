"""Run by test_tiny.py with another Python: tokens, pixels, logits and answers of a model in its transformers."""

import sys

import numpy as np

from tempoloc_nb.clips.manifest import load_benchmark
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.engines.hf import HFBackend
from tempoloc_nb.inference.requests import plan_requests
from tempoloc_nb.prompting.prompts import load_prompt
from tempoloc_nb.prompting.sampling import Sampling
from tempoloc_nb.video.view import View

transformers = import_transformers()
import torch  # noqa: E402

folder, given, out = sys.argv[1:]
data = np.load(given)
model = transformers.Qwen2_5_VLForConditionalGeneration.from_pretrained(folder, dtype=torch.float32).eval()
processor = transformers.AutoProcessor.from_pretrained(folder)
made = processor.video_processor([data["frames"]], return_tensors="pt", do_sample_frames=False)
ids = np.array(processor.tokenizer(str(data["prompt"]))["input_ids"])
with torch.no_grad():
    logits = model(
        input_ids=torch.from_numpy(ids)[None],
        position_ids=torch.from_numpy(data["positions"])[:, None],
        pixel_values_videos=made["pixel_values_videos"],
        video_grid_thw=made["video_grid_thw"],
    ).logits[0]
sim = load_benchmark("sim").head(1)
requests = plan_requests(sim, find_videos(sim), 4, 2, View("pair"), load_prompt("tiny"))[:1]
answers = HFBackend(folder, device="cpu").generate(requests, Sampling(max_new_tokens=12))[0]
np.savez(
    out,
    answers=np.array([a.text for a in answers]),
    version=np.array(transformers.__version__),
    ids=ids,
    pixels=made["pixel_values_videos"].numpy(),
    logits=logits.numpy(),
)
