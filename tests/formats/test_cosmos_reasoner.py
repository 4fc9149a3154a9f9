"""The Reasoner's folder: what is in it, what is refused, and what cosmos-framework's own code makes of it.

The last needs a checkout, as `test_cosmos.py` does. Of what its modules import they get here what they use.
"""

from __future__ import annotations

import io
import json
import os
import re
import runpy
import sys
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import av
import pytest
from tiny_models import qwen3
from video_clips import write_clip

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.machine import file_hash
from tempoloc_nb.core.optional import import_transformers
from tempoloc_nb.formats import cosmos
from tempoloc_nb.formats.convert import export_dataset
from tempoloc_nb.formats.cosmos import _frames_taken, export_cosmos_reasoner
from tempoloc_nb.sft.dataset import Sample, sample_of, save_samples
from tempoloc_nb.video.files import probe

pytest.importorskip("datasets", reason="needs the extra `data`")
ROOT = Path(os.environ.get("COSMOS_FRAMEWORK_SRC", "")) / "cosmos_framework"
needs_framework = pytest.mark.skipif(
    not os.environ.get("COSMOS_FRAMEWORK_SRC"),
    reason="COSMOS_FRAMEWORK_SRC names no checkout: git clone https://github.com/NVIDIA/cosmos-framework",
)
LABELS = ("grasping the mug", "releasing the mug")


def sample(folder: Path, name: str, n_frames: int = 60, rate: int = 30, split: str = "train", **changes: Any) -> Sample:
    video = f"videos/mug/{name}.mp4"
    (folder / "videos" / "mug").mkdir(parents=True, exist_ok=True)
    info = probe(write_clip(folder / video, n_frames, time_base=Fraction(1, rate), rate=rate, seed=len(name)))
    events = tuple(Event(label, t) for label, t in zip(LABELS, (0.5, 1.25), strict=True))
    clip = Clip(f"mug/{name}", "mug", events, video, info.fps, duration=info.duration)
    told: dict[str, Any] = {"fps": 8, "stamps": "frame", "stamped": True} | changes
    return replace(sample_of(clip, video=video, source_fps=info.fps, **told), split=split)


def dataset(folder: Path, *samples: Sample) -> Path:
    save_samples(samples, folder)
    return folder


def test_a_split_becomes_a_folder(tmp_path: Path) -> None:
    told = [sample(tmp_path / "d", "a"), sample(tmp_path / "d", "é", prompt="tiny")]
    source = dataset(tmp_path / "d", *told, sample(tmp_path / "d", "val", split="validation"))
    done = export_dataset(source, tmp_path / "out", "cosmos-reasoner", split="train")
    assert (done.kept, done.dropped, done.what) == (2, {}, "samples")
    assert done.notes == ("built for 8 frames a second, of which the training sees about 2",)
    entries = json.loads((done.output / "meta.json").read_bytes())
    assert [e["id"] for e in entries] == ["mug/a", "mug/é"]
    assert sorted(p.name for p in tmp_path.iterdir()) == ["d", "out"]
    for entry, truth in zip(entries, told, strict=True):
        assert set(entry) == {"id", "media", "conversation"}
        assert file_hash(done.output / entry["media"]) == file_hash(tmp_path / "d" / truth.video)
        (talk,) = json.loads((done.output / entry["conversation"]).read_text(encoding="ascii")).values()
        texts = {t["role"]: p["text"] for t in talk for p in t["content"] if p["type"] == "text"}
        assert (texts["user"], texts["assistant"]) == (truth.question, truth.answer)
        assert texts.get("system", "") == truth.system
        (user,) = (turn for turn in talk if turn["role"] == "user")
        assert user["content"][0] == {"type": "video", "video": "video_0"}


def test_long_clips_are_named_and_left_out_if_asked(tmp_path: Path) -> None:
    made = [sample(tmp_path / "d", "a"), sample(tmp_path / "d", "long", 33, rate=2)]
    source = dataset(tmp_path / "d", *made)
    with pytest.raises(TempolocError) as error:
        export_cosmos_reasoner(source, tmp_path / "out")
    assert str(error.value).startswith("1 of 2 clips have more than 32 frames at 2 a second (mug/long), and ")
    assert "(--drop)" in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()
    done = export_cosmos_reasoner(source, tmp_path / "out", drop=True)
    assert (done.kept, done.dropped) == (1, {"more than 32 frames at 2 a second": ["mug/long"]})
    assert export_cosmos_reasoner(source, tmp_path / "all", max_frames=33).kept == 2
    with pytest.raises(TempolocError, match="2 of 2 clips have more than 2 frames") as error:
        export_cosmos_reasoner(source, tmp_path / "none", max_frames=2, drop=True)
    assert "--drop" not in str(error.value)


def test_what_cannot_be_exported_is_named(tmp_path: Path) -> None:
    bare = sample(tmp_path / "d", "a", stamped=False)
    source = dataset(tmp_path / "d", bare, sample(tmp_path / "d", "val", split="validation"))
    with pytest.raises(TempolocError, match="has the splits train, validation: choose one"):
        export_cosmos_reasoner(source, tmp_path / "out")
    with pytest.raises(TempolocError, match=r"1 of 1 videos lack the stamps .* \(mug/a\), .* --stamping write"):
        export_cosmos_reasoner(source, tmp_path / "out", split="train")
    with pytest.raises(TempolocError, match="fps must be above 0 and max_frames at least 1"):
        export_cosmos_reasoner(source, tmp_path / "out", split="validation", fps=0)
    (source / "videos" / "mug" / "val.mp4").unlink()
    with pytest.raises(TempolocError, match="1 of 1 videos are not there, mug/val the first"):
        export_cosmos_reasoner(source, tmp_path / "out", split="validation")
    assert not (tmp_path / "out").exists()


def test_a_folder_stays_unless_it_is_one_of_these(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source = dataset(tmp_path / "d", sample(tmp_path / "d", "a"))
    for place in ("mine", "out"):
        (tmp_path / place).mkdir()
    (tmp_path / "mine" / "thesis").write_text("x")
    for force, said in ((False, "is there already"), (True, r"has no meta\.json")):
        with pytest.raises(TempolocError, match=said):
            export_cosmos_reasoner(source, tmp_path / "mine", force=force)
    with pytest.raises(TempolocError, match="which is read: give another name"):
        export_cosmos_reasoner(source, tmp_path / "d", force=True)
    export_cosmos_reasoner(source, tmp_path / "out")
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}

    def full(video: Path, target: Path) -> None:
        raise OSError(28, "No space left on device", str(target))

    monkeypatch.setattr(cosmos.shutil, "copyfile", full)
    with pytest.raises(TempolocError, match=r"cannot write .*: No space left on device"):
        export_dataset(source, tmp_path / "out", "cosmos-reasoner", force=True)
    assert {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()} == before


# --- in the framework's hands ---


class Decoder:
    """As much of torchcodec's decoder as the recipe uses."""

    def __init__(self, data: bytes) -> None:
        with av.open(io.BytesIO(data)) as container:
            rate = container.streams.video[0].average_rate
            self.frames = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
        self.metadata = SimpleNamespace(num_frames=len(self.frames), average_fps=rate)

    def get_frames_at(self, indices: list[int]) -> Any:
        torch = pytest.importorskip("torch")
        return SimpleNamespace(data=torch.stack([torch.from_numpy(self.frames[i]).permute(2, 0, 1) for i in indices]))


def put(monkeypatch: pytest.MonkeyPatch, name: str, values: dict[str, Any]) -> None:
    """Let a module of theirs be imported, and the packages above it, none of which is installed."""
    full = name if name.startswith("torchcodec") else f"cosmos_framework.{name}"
    for above in (full.rsplit(".", n)[0] for n in range(full.count("."), 0, -1)):
        if above not in sys.modules:
            monkeypatch.setitem(sys.modules, above, ModuleType(above))
    module = ModuleType(full)
    vars(module).update({k: v for k, v in values.items() if not k.startswith("__")})
    monkeypatch.setitem(sys.modules, full, module)


@pytest.fixture
def theirs(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Their loader of folders, their recipe's processor and their wrapper of a model's."""
    import_transformers().AutoProcessor  # noqa: B018  (before theirs do, for this environment's torchvision may not load)

    def refuse(line: str, **options: Any) -> None:
        raise AssertionError(line)

    log = SimpleNamespace(info=lambda *a, **k: None, warning=refuse, critical=refuse)
    absent = dict.fromkeys(("build_cosmos3_edge_processor", "maybe_download_hf_model_from_s3", "tokenize_caption"))
    put(monkeypatch, "torchcodec.decoders", {"VideoDecoder": Decoder})
    put(monkeypatch, "utils", {"log": log})
    put(monkeypatch, "utils.lazy_config", {"instantiate": None})
    put(monkeypatch, "utils.generator.reasoner.pretrained_models_downloader", absent)
    put(monkeypatch, "model.generator.reasoner.qwen3_vl.utils", absent)
    edge = {"is_cosmos3_edge_native_snapshot": lambda folder: False}
    put(monkeypatch, "data.generator.processors.cosmos3_edge_processing", absent | edge)
    put(monkeypatch, "data.generator.dataflow.base", {"RawItemProcessor": object})
    found: dict[str, Any] = {}
    for name in (
        "utils.reasoner.constant", "data.reasoner.local_sft_dataset", "data.generator.processors.base",
        "data.generator.processors.qwen3vl_processor",
        "configs.base.reasoner.experiment.videophy2_dataflow_roles",
    ):  # fmt: skip
        values = runpy.run_path(str(ROOT / f"{name.replace('.', '/')}.py"))
        put(monkeypatch, name, values)
        found |= values
    return found


@needs_framework
def test_their_loader_and_processor_train_on_our_answers(tmp_path: Path, theirs: dict[str, Any]) -> None:
    told = [sample(tmp_path / "d", "a", 90), sample(tmp_path / "d", "bb", 25, rate=5, prompt="tiny")]
    export_cosmos_reasoner(dataset(tmp_path / "d", *told), tmp_path / "out")
    loader = theirs["LocalSFTDataset"](str(tmp_path / "out" / "meta.json"), shuffle=False, is_infinite_loader=False)
    processor = theirs["Qwen3VLProcessor"](str(qwen3()))
    processor.tokenizer.add_tokens(["assistant"])  # one token in Qwen's vocabulary, by which they find what is learned
    recipe = theirs["VideoPhy2Processor"](processor)
    found = list(loader)
    assert [item["__key__"] for item in found] == [s.clip for s in told]
    for item, truth in zip(found, told, strict=True):
        made = recipe.process(item)
        text = processor.tokenizer.decode(made["input_ids"])
        learned = processor.tokenizer.decode(made["labels"][made["labels"] != theirs["IGNORE_INDEX"]])
        assert learned.strip().removesuffix("<|im_end|>") == truth.answer
        assert truth.question in text
        assert truth.system in text
        info = probe(tmp_path / "d" / truth.video)
        assert int(made["video_grid_thw"][0][0]) == -(-_frames_taken(info.n_frames, info.fps) // 2)
        last = float(re.findall(r"<(\d+\.\d) seconds>", text[: text.index(truth.question)])[-1])
        assert info.duration - 1.1 < last < info.duration


@needs_framework
def test_times_are_told_wrong_of_clips_that_we_refuse(tmp_path: Path, theirs: dict[str, Any]) -> None:
    for name, n_frames, right in (("fits", 64, True), ("long", 66, False)):
        path = write_clip(tmp_path / f"{name}.mp4", n_frames, time_base=Fraction(1, 4), rate=4)
        frames, rate = theirs["_decode_video_to_pil_frames"](path.read_bytes())
        assert len(frames) == 32
        assert (len(frames) / rate == n_frames / 4) is right
        assert (_frames_taken(n_frames, 4) <= 32) is right
