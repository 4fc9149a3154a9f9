"""Messages JSONL: the samples come back whatever the style, and `datasets` reads the file as trainers do."""

from __future__ import annotations

import errno
import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from video_clips import write_clip

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.checks import check
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.provenance import file_hash
from tempoloc_nb.formats.convert import export_dataset, import_dataset
from tempoloc_nb.formats.messages import MessageLine, export_messages, import_messages, message_row, read_turns
from tempoloc_nb.sft.dataset import Sample, read_samples, sample_of, save_samples
from tempoloc_nb.video.files import probe

datasets = pytest.importorskip("datasets", reason="needs the extra `data`")
LABELS = ("grasping the mug", "releasing the mug")


def sample(folder: Path, name: str, times: tuple[float, ...], split: str = "train", **changes: Any) -> Sample:
    video = f"videos/mug/{name}.mp4"
    (folder / "videos" / "mug").mkdir(parents=True, exist_ok=True)
    path = write_clip(folder / video, 60, seed=len(name))
    info = probe(path)
    events = tuple(Event(label, t) for label, t in zip(LABELS, times, strict=True))
    clip = Clip(f"mug/{name}", "mug", events, video, 30.0, duration=info.duration, source="ours")
    told: dict[str, Any] = {"prompt": "recipe", "stamps": "pair", "video_sha256": file_hash(path)} | changes
    return sample_of(clip, video=video, fps=8, split=split, source_fps=info.fps, **told)


@pytest.fixture(scope="module")
def dataset(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mugs")
    save_samples(
        [
            sample(folder, "a", (0.512, 1.2345)), sample(folder, "bb", (0.3, 0.6), digits=1, prompt="tiny"),
            sample(folder, "ccc", (0.4, 1.4), "validation", convention="end", stamped=True, stamps="frame"),
        ],
        folder,
    )  # fmt: skip
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.mark.parametrize("style", ["llama-factory", "trl"])
@pytest.mark.parametrize("split", ["train", "validation"])
def test_samples_come_back(style: str, split: str, dataset: Path, tmp_path: Path) -> None:
    done = export_dataset(dataset, tmp_path / "x" / "m.jsonl", "messages", split=split, style=style)
    back = import_dataset(done.output, tmp_path / "back", "messages")
    assert back.kept == done.kept
    assert read_samples(tmp_path / "back", split) == read_samples(dataset, split)
    for found in read_samples(tmp_path / "back"):
        assert file_hash(tmp_path / "back" / found.video) == found.video_sha256
    summary = json.loads((tmp_path / "back" / "summary.json").read_text())
    assert (summary["kept"], summary["dropped"], summary["tasks"]) == (done.kept, {}, {"mug": done.kept})
    assert (summary["splits"], summary["source"], summary["fps"]) == ({split: done.kept}, "m.jsonl", 8.0)
    assert ("convention" in summary, "system" in summary) == (True, split == "validation")


@pytest.mark.parametrize("there", [False, True])
def test_the_folder_of_one_split_is_a_source_too(
    there: bool, dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(dataset / "train" if there else tmp_path)
    done = export_messages("." if there else dataset / "train", tmp_path / "m.jsonl", split="train")
    for row in rows(done.output):
        assert (tmp_path / row["videos"][0]).resolve().is_file()
    import_messages(done.output, tmp_path / "back")
    assert read_samples(tmp_path / "back") == read_samples(dataset, "train")


def test_trainers_read_the_file(dataset: Path, tmp_path: Path) -> None:
    """As LLaMA-Factory and TRL do: through `datasets`, with the entry's columns and tags."""
    done = export_messages(dataset, tmp_path / "mugs.jsonl", split="train")
    entry = json.loads((tmp_path / "dataset_info.json").read_text())["mugs"]
    found = datasets.load_dataset(
        "json", data_files=str(tmp_path / entry["file_name"]), split="train", cache_dir=str(tmp_path / "cache")
    )
    tags = entry["tags"]
    for row, truth in zip(found, read_samples(dataset, "train"), strict=True):
        turns = row[entry["columns"]["messages"]]
        said = {turn[tags["role_tag"]]: turn[tags["content_tag"]] for turn in turns}
        assert list(said) == [tags["system_tag"], tags["user_tag"], tags["assistant_tag"]]
        assert said["user"].count("<video>") == len(row[entry["columns"]["videos"]]) == 1
        assert said["user"].removeprefix("<video>") == truth.question
        assert said["assistant"] == truth.answer
    assert done.kept == len(found) == 2


def test_chat_templates_take_the_other_style(dataset: Path, tmp_path: Path) -> None:
    done = export_messages(dataset, tmp_path / "mugs.jsonl", split="train", style="trl")
    assert not (tmp_path / "dataset_info.json").exists()
    found = datasets.load_dataset("json", data_files=str(done.output), split="train", cache_dir=str(tmp_path / "cache"))
    for row, truth in zip(found, read_samples(dataset, "train"), strict=True):
        parts = [part for turn in row["messages"] for part in turn["content"]]
        assert [part["type"] for part in parts] == ["text", "video", "text", "text"]
        texts = [part["text"] for part in parts if part["type"] == "text"]
        assert texts == [truth.system, truth.question, truth.answer]
        (video,) = [part["video"] for part in parts if part["type"] == "video"]
        assert (tmp_path / video).is_file()


def test_entries_of_others_stay(dataset: Path, tmp_path: Path) -> None:
    (tmp_path / "dataset_info.json").write_text('{"theirs": {"file_name": "theirs.json"}}')
    export_messages(dataset, tmp_path / "mugs.jsonl", split="train")
    assert set(json.loads((tmp_path / "dataset_info.json").read_text())) == {"theirs", "mugs"}
    (tmp_path / "dataset_info.json").write_text("{")
    (tmp_path / "mugs.jsonl").unlink()
    with pytest.raises(TempolocError, match=r"dataset_info\.json is not JSON"):
        export_messages(dataset, tmp_path / "mugs.jsonl", split="train")
    assert not (tmp_path / "mugs.jsonl").exists()


def test_what_cannot_be_exported_is_named(dataset: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match="has the splits train, validation: choose one"):
        export_messages(dataset, tmp_path / "m.jsonl")
    with pytest.raises(TempolocError, match="unknown style 'alpaca': choose one of llama-factory, trl"):
        export_messages(dataset, tmp_path / "m.jsonl", split="train", style="alpaca")
    with pytest.raises(TempolocError, match="no such dataset"):
        export_messages(tmp_path / "nowhere", tmp_path / "m.jsonl")
    copy = tmp_path / "copy"
    shutil.copytree(dataset, copy)
    (copy / "videos" / "mug" / "bb.mp4").unlink()
    with pytest.raises(TempolocError, match="1 of 2 videos are not there, mug/bb the first"):
        export_messages(copy, tmp_path / "m.jsonl", split="train")
    assert not (tmp_path / "m.jsonl").exists()


# --- other people's lines ---

QUESTION = "<video>\nFind these events:\nEvent 1: grasping the mug.\nEvent 2: releasing the mug."
ANSWER = "<answer>\nEvent 1: <0.5> <1.0> grasping the mug\nEvent 2: <1.0> <1.6> releasing the mug\n</answer>"


def theirs(**changes: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}, {"role": "assistant", "content": ANSWER}]
    return {"messages": messages, "videos": ["v.mp4"]} | changes


def read(tmp_path: Path, *found: Any, **options: Any) -> list[Sample]:
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(f if isinstance(f, str) else json.dumps(f) + "\n" for f in found))
    for name in ("v", "w"):
        if not (tmp_path / f"{name}.mp4").exists():
            write_clip(tmp_path / f"{name}.mp4", 60)
    import_messages(path, tmp_path / "out", **({"task": "mug", "fps": 4.0} | options))
    return read_samples(tmp_path / "out")


def test_their_lines_become_samples(tmp_path: Path) -> None:
    (found,) = read(tmp_path, theirs(), split="test", stamps="frame")
    assert (found.clip, found.task, found.split, found.fps) == ("mug/v", "mug", "test", 4.0)
    assert (found.source_fps, found.duration, found.stamps) == (30.0, 2.0, "frame")
    assert found.events == (Event(LABELS[0], 0.5, 0.5, 1.0), Event(LABELS[1], 1.0, 1.0, 1.6))
    assert found.question == QUESTION.removeprefix("<video>\n")
    assert (found.answer, found.system) == (ANSWER, "")
    assert (tmp_path / "out" / found.video).is_file()


def test_lines_of_earlier_versions_say_recipe_for_frame(tmp_path: Path) -> None:
    (found,) = read(tmp_path, theirs(tempoloc={"stamps": "recipe"}))
    assert found.stamps == "frame"


def test_the_convention_says_which_number_is_the_boundary(tmp_path: Path) -> None:
    (found,) = read(tmp_path, theirs(), convention="end")
    assert [e.boundary for e in found.events] == [1.0, 1.6]


def test_the_rate_is_at_most_the_videos(tmp_path: Path) -> None:
    (found,) = read(tmp_path, theirs(), fps=99.0)
    assert found.fps == 30.0


def turns(*told: tuple[str, Any]) -> dict[str, Any]:
    return theirs(messages=[{"role": role, "content": content} for role, content in told])


PARTS = [{"type": "video", "video": "v.mp4"}, {"type": "text", "text": QUESTION}]


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("{\n", "is not JSON"),
        ({"videos": ["v.mp4"]}, "lacks 'messages'"),
        (theirs(messages="hello"), 'messages = "hello" is not a list'),
        (theirs(messages=[3]), "messages: 0 = 3 is not a table"),
        (theirs(videos=[]), "a sample has one video, not 0"),
        (theirs(videos=["v.mp4", "w.mp4"]), "a sample has one video, not 2"),
        (theirs(videos=[3]), "videos: 0 = 3 is not text"),
        (theirs(videos=["gone.mp4"]), "no video at gone.mp4"),
        (turns(("user", QUESTION)), "messages are user; wanted: (system,) user, assistant"),
        (turns(("assistant", ANSWER), ("user", QUESTION)), "messages are assistant, user; wanted"),
        (turns(("user", QUESTION), ("system", "x"), ("assistant", ANSWER)), "messages are user, system, assistant"),
        (turns(("user", QUESTION), ("user", QUESTION), ("assistant", ANSWER)), "more than one user message"),
        (turns(("user", 3), ("assistant", ANSWER)), "messages.0: content = 3 is not a list"),
        (turns(("user", PARTS), ("assistant", ANSWER)), "a sample has one video, not 2"),
        (turns(("user", [{"type": "image", "image": "x"}]), ("assistant", ANSWER)), 'type = "image" is none of'),
        (turns(("user", "<video>What happens?"), ("assistant", ANSWER)), "the question lists no events"),
        (turns(("user", QUESTION), ("assistant", "I do not know.")), "event 1 (grasping the mug) is missing"),
        (turns(("user", QUESTION), ("assistant", ANSWER.replace("<0.5> <1.0>", "soon"))), "event 1 (grasping the mug)"),
        (turns(("user", QUESTION), ("assistant", ANSWER.replace("0.5", "1.5"))), "event 1 (grasping the mug) is rev"),
        (turns(("user", QUESTION), ("assistant", ANSWER.replace("<1.0> <1.6>", "<9> <9.5>"))), "is out of range"),
        (turns(("user", QUESTION + "\nThe first is at 0:01."), ("assistant", ANSWER)), "the question holds the time"),
        (theirs(tempoloc=[]), "tempoloc = [] is not a table"),
        (theirs(tempoloc={"fps": "8"}), 'fps = "8" is not a number'),
        (theirs(tempoloc={"fps": -8}), "fps = -8: "),
        (theirs(tempoloc={"stamps": "often"}), 'stamps = "often" is none of'),
        (theirs(tempoloc={"convention": "middle"}), 'convention = "middle" is none of'),
        (theirs(tempoloc={"events": 3}), "tempoloc: events = 3 is not a list"),
        (theirs(tempoloc={"events": [{"label": LABELS[0], "boundary": 0.5, "start": 0.5, "end": 1.0}]}), "differ"),
    ],
)
def test_a_bad_line_is_named_and_nothing_is_written(bad: Any, message: str, tmp_path: Path) -> None:
    good = theirs(videos=["w.mp4"])
    with pytest.raises(TempolocError, match=r"^theirs\.jsonl:2") as error:
        read(tmp_path, good, bad)
    assert message in str(error.value)
    assert "\n" not in str(error.value)
    assert not (tmp_path / "out").exists()


def test_an_answer_that_was_edited_is_noticed(dataset: Path, tmp_path: Path) -> None:
    done = export_messages(dataset, tmp_path / "m.jsonl", split="train")
    changed = rows(done.output)
    said = changed[0]["messages"][-1]
    said["content"] = said["content"].replace("0.51", "0.81")
    done.output.write_text("".join(json.dumps(r) + "\n" for r in changed))
    with pytest.raises(TempolocError, match=r"m\.jsonl:1: the answer and the tempoloc events differ"):
        import_messages(done.output, tmp_path / "back")
    for row in changed:
        del row["tempoloc"]["events"]
    done.output.write_text("".join(json.dumps(r) + "\n" for r in changed))
    import_messages(done.output, tmp_path / "back")
    assert read_samples(tmp_path / "back")[0].events[0].boundary == 0.81


def test_what_is_said_of_a_video_is_what_it_is(dataset: Path, tmp_path: Path) -> None:
    done = export_messages(dataset, tmp_path / "m.jsonl", split="train")
    (changed, *_) = rows(done.output)
    write_clip(tmp_path / "v.mp4", 90, seed=9)  # another video in its place
    done.output.write_text(json.dumps(changed | {"videos": ["v.mp4"]}) + "\n")
    import_messages(done.output, tmp_path / "back")
    (found,) = read_samples(tmp_path / "back")
    assert (found.duration, found.video_sha256) == (3.0, file_hash(tmp_path / "v.mp4"))


def test_what_lines_do_not_say_must_be_told(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"theirs\.jsonl:1 does not say which task it is"):
        read(tmp_path, theirs(), task=None)
    with pytest.raises(TempolocError, match=r"theirs\.jsonl:1 does not say at which fps"):
        read(tmp_path, theirs(), fps=None)
    with pytest.raises(TempolocError, match=r"theirs\.jsonl:2: mug/v is in theirs\.jsonl:1 already"):
        read(tmp_path, theirs(), theirs())
    with pytest.raises(TempolocError, match="nothing to import"):
        read(tmp_path)


def test_a_full_folder_is_not_written_into(dataset: Path, tmp_path: Path) -> None:
    done = export_messages(dataset, tmp_path / "m.jsonl", split="train")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "mine").write_text("x")
    with pytest.raises(TempolocError, match="full is there already"):
        import_messages(done.output, tmp_path / "full")


def test_a_disk_that_is_full_leaves_nothing(dataset: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done = export_messages(dataset, tmp_path / "m.jsonl", split="train")
    copied: list[Path] = []

    def copy(video: Path, target: Path) -> None:
        copied.append(target)
        target.write_bytes(b"half")
        if len(copied) == 2:
            raise OSError(errno.ENOSPC, "No space left on device", str(target))

    monkeypatch.setattr("tempoloc_nb.formats.messages.shutil.copyfile", copy)
    with pytest.raises(TempolocError, match=r"cannot write .*: No space left on device"):
        import_dataset(done.output, tmp_path / "back", "messages")
    assert len(copied) == 2
    assert not list(tmp_path.glob("back*"))


@pytest.mark.parametrize("clip", ["mug/../../x", "/x", "mug/a\\b", "../x"])
def test_a_clip_cannot_lead_out_of_the_dataset(clip: str, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"^theirs\.jsonl:1: (.* is not a path within|the clip id)"):
        read(tmp_path, theirs(tempoloc={"clip": clip, "task": "mug"}))
    assert not (tmp_path / "out").exists()


def test_both_styles_say_the_same(dataset: Path) -> None:
    for found in read_samples(dataset):
        lines = [check(MessageLine, message_row(found, "v.mp4", s), "x") for s in ("llama-factory", "trl")]  # type: ignore[arg-type]
        one, two = (read_turns(line, "x") for line in lines)
        assert one == two == (found.system, found.question, found.answer, "v.mp4")
    odd = replace(found, conversations=found.conversations.replace("Extract", "Give"))
    assert read_turns(check(MessageLine, message_row(odd, "v.mp4"), "x"), "x") != one
