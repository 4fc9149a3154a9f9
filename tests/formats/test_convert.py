"""The table of formats, and cosmos-framework's JSONL there and back: what is lost is said, what is bad is named."""

from __future__ import annotations

import itertools
import json
import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from video_clips import write_clip

from tempoloc_nb.clips.manifest import Clip, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event, Interval
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.files import parse_object, read_jsonl, write_jsonl
from tempoloc_nb.formats import convert as interchange
from tempoloc_nb.formats.captions import (
    _clock,
    _read_range,
    actions_text,
    event_actions,
    read_captions,
    read_text_actions,
)
from tempoloc_nb.formats.convert import FORMATS, export_dataset, import_dataset, relative_path
from tempoloc_nb.formats.cosmos import _read_cosmos, export_cosmos, import_cosmos

TASK = 'key = "mug"\nevents = ["grasping the mug", "releasing the mug"]\nfps = 30.0\n'


def mug(name: str, times: tuple[float, ...] = (0.75, 1.5), **changes: Any) -> Clip:
    labels = ("grasping the mug", "releasing the mug")
    events = tuple(Event(label, t) for label, t in zip(labels, times, strict=False))
    return replace(Clip(f"mug/{name}", "mug", events, f"videos/{name}.mp4", fps=30.0), **changes)


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four clips: two good, one of 40 frames, one without its video, of 90, 66, 40 and no frames."""
    folder = tmp_path_factory.mktemp("mugs")
    (folder / "videos").mkdir()
    for name, n in (("a", 90), ("b", 66), ("short", 40)):
        write_clip(folder / "videos" / f"{name}.mp4", n, seed=n)
    made = (mug("a", seed=7, robot="Panda", instants={"lift": 0.9}), mug("b", source="ours"), mug("short"), mug("gone"))
    write_manifest(folder / "manifest.jsonl", made)
    (folder / "mug.toml").write_text(TASK)
    return folder


def rows(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def summary_of(path: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(path.with_name(path.name + ".summary.json").read_text())
    return found


# --- the table ---


@pytest.mark.parametrize("name", list(FORMATS))
def test_every_format_names_functions_that_take_source_and_output(name: str) -> None:
    made = FORMATS[name]
    assert made.write or made.read
    for side in ("write", "read"):
        if getattr(made, side):
            assert callable(made.function(side))
            assert set(made.options(side)).isdisjoint({"source", "output"})


def test_unknown_formats_and_options_are_named(tmp_path: Path, source: Path) -> None:
    with pytest.raises(TempolocError, match="unknown format 'avi': choose one of autodata, cosmos, cosmos-reasoner"):
        export_dataset(source, tmp_path / "x", "avi")
    with pytest.raises(TempolocError, match=r"cosmos has no option --task; its options: --video-root, "):
        export_dataset(source, tmp_path / "x", "cosmos", task="mug")
    assert list(tmp_path.iterdir()) == []


def test_a_needed_option_and_a_missing_side_are_named(
    tmp_path: Path, source: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    odd = interchange.Format("odd", "a format that is only written", "convert:relative_path")
    monkeypatch.setitem(FORMATS, "odd", odd)
    with pytest.raises(TempolocError, match="odd cannot be imported: choose one of cosmos"):
        import_dataset(source, tmp_path / "x", "odd")

    def write(source: Path, output: Path, *, who: str) -> interchange.Converted:
        return interchange.Converted(output, len(who))

    monkeypatch.setattr(interchange, "relative_path", write)
    with pytest.raises(TempolocError, match="the format odd needs --who"):
        export_dataset(source, tmp_path / "x", "odd", who=None)
    assert export_dataset(source, tmp_path / "x", "odd", who="me").kept == 2


def test_the_source_is_not_overwritten(source: Path) -> None:
    manifest = source / "manifest.jsonl"
    before = manifest.read_bytes()
    with pytest.raises(TempolocError, match="is the source itself"):
        export_dataset(manifest, manifest, "cosmos")
    assert manifest.read_bytes() == before


# --- lines ---


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", r"x\.jsonl:2 is not JSON: "), ("[1]", r"x\.jsonl:2 is not a JSON object: \[1\]"),
        ("[" * 100_000, r"x\.jsonl:2 is nested too deep"), ("nan", r"x\.jsonl:2 is not JSON"),
        ('{"a": NaN}', r"x\.jsonl:2 is not JSON: NaN"), ('{"a": ' + "1" * 5000, r"x\.jsonl:2 is not JSON: "),
    ],
)  # fmt: skip
def test_a_bad_line_is_named(line: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "x.jsonl").write_text(f"{{}}\n{line}\n{{}}\n")
    with pytest.raises(TempolocError, match=message):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_files_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read the cosmos file .*nowhere\.jsonl: No such file"):
        list(read_jsonl(tmp_path / "nowhere.jsonl", "cosmos"))
    (tmp_path / "x.jsonl").write_bytes(b'{"a": "\xff"}')
    with pytest.raises(TempolocError, match="not UTF-8 text, byte 7"):
        list(read_jsonl(tmp_path / "x.jsonl"))


def test_lines_with_a_byte_order_mark_and_line_separators_are_read(tmp_path: Path) -> None:
    texts = [{"a": "one\u2028two"}, {"a": "three\x85"}]
    write_jsonl(tmp_path / "new" / "x.jsonl", texts)
    path = tmp_path / "new" / "x.jsonl"
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes() + b"\r\n \n")
    assert [row for _, row in read_jsonl(path)] == texts


# --- times ---


@given(st.integers(0, 10**7))
def test_milliseconds_survive(milliseconds: int) -> None:
    seconds = milliseconds / 1000
    found = _read_range(f"{_clock(seconds)}-{_clock(seconds)}")
    assert found is not None
    assert found.start == pytest.approx(seconds, abs=1e-9)


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("0:03-0:09", Interval(3, 9)), ("00:03 - 00:09.5", Interval(3, 9.5)), ("1:00:00–1:00:01", Interval(3600, 3601)),
        ("3-9", None), ("0:03", None), ("0:03-0:09 s", None), ("", None), ("a0:03-0:09", None),
    ],
)  # fmt: skip
def test_ranges(text: str, found: Interval | None) -> None:
    assert _read_range(text) == found


_LABEL = st.text("abcdefghij klm", min_size=1, max_size=30).map(str.strip).filter(bool)


@given(st.lists(_LABEL, min_size=1, max_size=5, unique=True), st.data())
def test_texts_say_what_actions_say(labels: list[str], data: st.DataObject) -> None:
    ticks = data.draw(st.lists(st.integers(1, 60_000), min_size=len(labels), max_size=len(labels), unique=True))
    events = tuple(Event(label, t / 1000) for label, t in zip(labels, sorted(ticks), strict=True))
    for side in ("start", "end"):
        actions = event_actions(Clip("t/0", "t", events), 60.0, side)
        assert read_text_actions(actions_text(actions)) == actions
        spans = [_read_range(a["time"]) for a in actions]
        assert [getattr(s, side) for s in spans] == [e.boundary for e in events]


def test_prose_with_times_is_read() -> None:
    text = "An arm waits. 0:01-0:03: it grasps the cube, then 0:03 - 0:07.5 it lifts the cube. At 0:09 it rests."
    found = read_text_actions(text)
    assert [a["time"] for a in found] == ["0:01-0:03", "0:03 - 0:07.5"]
    assert found[0]["description"] == "it grasps the cube, then"
    assert read_text_actions("Nothing happens at 0:09.") == []


# --- there and back ---


@pytest.mark.parametrize("side", ["start", "end"])
def test_a_manifest_comes_back(side: str, source: Path, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "mug.toml").write_text(TASK + f'boundary_is = "{side}"\n')
    (tmp_path / "in" / "manifest.jsonl").write_text((source / "manifest.jsonl").read_text())
    done = export_cosmos(tmp_path / "in", tmp_path / "x" / "t.jsonl", video_root=source)
    assert (done.kept, done.dropped) == (2, {"no video": ["mug/gone"], "fewer than 61 frames": ["mug/short"]})
    import_cosmos(done.output, tmp_path / "y" / "back.jsonl")
    before, after = load_benchmark(source), load_benchmark(tmp_path / "y" / "back.jsonl")
    assert after.tasks["mug"].boundary_is == side
    assert [c.clip for c in after.clips] == ["mug/a", "mug/b"]
    for old, new in zip(before.clips, after.clips, strict=False):
        assert (new.boundaries, new.labels) == (old.boundaries, old.labels)
        kept = ("fps", "source", "seed", "robot", "instants", "split", "extra")
        assert [getattr(new, k) for k in kept] == [getattr(old, k) for k in kept]
        assert new.video_path(after.root).resolve() == old.video_path(before.root).resolve()


def test_the_shipped_clips_come_back(tmp_path: Path) -> None:
    sim = load_benchmark("sim")
    done = export_dataset("sim", tmp_path / "t.jsonl", "cosmos")
    import_dataset(done.output, tmp_path / "back.jsonl", "cosmos")
    back = {c.clip: c for c in load_benchmark(tmp_path / "back.jsonl").clips}
    gone = {name for names in done.dropped.values() for name in names}
    assert len(back) == done.kept == 33
    for clip in sim.clips:
        if clip.clip not in gone:
            assert replace(back[clip.clip], video=clip.video) == clip


def test_segments_alone_bring_the_boundaries_back(source: Path, tmp_path: Path) -> None:
    done = export_cosmos(source, tmp_path / "t.jsonl")
    found = rows(done.output)
    for row in found:
        (told,) = row["t2w_windows"]
        segments = told["caption_json"]["segments"]
        assert [s["segment_index"] for s in segments] == list(range(len(segments)))
        assert [(s["time_range"], s["description"]) for s in segments] == [
            (a["time"], a["description"]) for a in told["caption_json"]["actions"]
        ]
        assert "transitions" not in told["caption_json"]  # texts without times
        told |= {"caption": "An arm.", "caption_json": {"segments": segments}}
    write_jsonl(tmp_path / "bare.jsonl", found)
    whole, bare = (_read_cosmos(p, tmp_path).clips for p in (done.output, tmp_path / "bare.jsonl"))
    assert [c.events for c in bare] == [c.events for c in whole]
    assert len(bare[0].events) == 2


def test_counted_frames_become_seconds(source: Path, tmp_path: Path) -> None:
    """The recipe counts BridgeData's 5 fps frames as if at 30 fps: 0.25 s there are 1.5 s of the video."""
    clip = mug("a", (0.1, 0.25), fps=5.0, label_fps=30.0)
    write_manifest(tmp_path / "manifest.jsonl", [clip])
    (tmp_path / "mug.toml").write_text(TASK)
    done = export_cosmos(tmp_path, tmp_path / "t.jsonl", video_root=source)
    (back,) = _read_cosmos(done.output, tmp_path).clips
    assert back.boundaries == pytest.approx((0.6, 1.5))
    assert back.label_fps is None


def test_whole_seconds_are_written_where_wanted(source: Path, tmp_path: Path) -> None:
    write_manifest(tmp_path / "manifest.jsonl", [mug("a", (1.2, 2.4))])
    (tmp_path / "mug.toml").write_text(TASK)
    done = export_cosmos(tmp_path, tmp_path / "t.jsonl", video_root=source, decimals=0)
    actions = rows(done.output)[0]["t2w_windows"][0]["caption_json"]["actions"]
    assert [a["time"] for a in actions] == ["0:01-0:02", "0:02-0:03"]
    with pytest.raises(TempolocError, match="0 to 6 decimals"):
        export_cosmos(tmp_path, tmp_path / "t.jsonl", decimals=7)


def test_a_line_has_what_their_loader_reads(source: Path, tmp_path: Path) -> None:
    done = export_cosmos(source, tmp_path / "x" / "t.jsonl", copy_videos=True)
    for row in rows(done.output):
        assert {"uuid", "duration", "width", "height", "vision_path", "t2w_windows"} <= set(row)
        assert (row["vision_path"], row["width"], row["height"]) == (f"videos/{row['uuid']}.mp4", 128, 96)
        assert (tmp_path / "x" / row["vision_path"]).is_file()
        (window,) = row["t2w_windows"]
        assert window["end_frame"] - window["start_frame"] + 1 == row["nb_frames"] >= 61
        assert window["caption_json"]["aspect_ratio"] == "4,3"
        assert window["caption"] == window["caption_json"]["temporal_caption"]
    assert export_cosmos(source, tmp_path / "x" / "t.jsonl", copy_videos=True, force=True).kept == 2


# --- what their loader leaves out ---


@pytest.mark.parametrize(
    ("num_video_frames", "kept", "few"),
    [(-1, 2, ["mug/short"]), (66, 2, ["mug/short"]), (67, 1, ["mug/b", "mug/short"])],
)
def test_windows_of_too_few_frames_are_left_out_and_named(
    num_video_frames: int, kept: int, few: list[str], source: Path, tmp_path: Path
) -> None:
    done = export_cosmos(source, tmp_path / "t.jsonl", num_video_frames=num_video_frames)
    found = summary_of(done.output)
    least = max(61, num_video_frames)
    assert (found["kept"], found["dropped"]) == (kept, 4 - kept)
    assert found["dropped_by_reason"] == {
        "no video": {"count": 1, "clips": ["mug/gone"]},
        f"fewer than {least} frames": {"count": len(few), "clips": few},
    }
    assert found["filters"] == {"longest_s": 61.0, "fewest_frames": least, "num_video_frames": num_video_frames}
    assert len(rows(done.output)) == kept


@pytest.mark.parametrize(("seconds", "kept"), [(61, True), (62, False)])
def test_long_videos_are_left_out(seconds: int, kept: bool, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    write_clip(tmp_path / "videos" / "a.mp4", seconds * 2, (64, 48), rate=2, pts=range(0, seconds * 30, 15))
    write_clip(tmp_path / "videos" / "b.mp4", 70, (64, 48))
    write_manifest(tmp_path / "manifest.jsonl", [mug("a"), mug("b")])
    (tmp_path / "mug.toml").write_text(TASK)
    done = export_cosmos(tmp_path, tmp_path / "t.jsonl")
    assert done.dropped == ({} if kept else {"longer than 61 s": ["mug/a"]})


def test_where_nothing_is_left_nothing_is_written(source: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"nothing to export: no video \(mug/gone\); fewer than 99 frames \(mug/a"):
        export_cosmos(source, tmp_path / "t.jsonl", num_video_frames=99)
    for bad in (0, -2):
        with pytest.raises(TempolocError, match="num_video_frames is a number of frames"):
            export_cosmos(source, tmp_path / "t.jsonl", num_video_frames=bad)
    with pytest.raises(TempolocError, match="nowhere: no such folder"):
        export_cosmos(source, tmp_path / "t.jsonl", captions=tmp_path / "nowhere")
    assert list(tmp_path.iterdir()) == []


def test_a_damaged_video_is_left_out_and_named(source: Path, tmp_path: Path) -> None:
    (tmp_path / "videos").mkdir()
    (tmp_path / "videos" / "b.mp4").write_text("no video")
    (tmp_path / "videos" / "a.mp4").write_bytes((source / "videos" / "a.mp4").read_bytes())
    done = export_cosmos(source, tmp_path / "t.jsonl", video_root=tmp_path)
    (said,) = done.dropped["unreadable"]
    assert said.startswith("mug/b: ")
    assert "cannot be read as video" in said


def test_what_nobody_labelled_is_no_caption(source: Path, tmp_path: Path) -> None:
    bare = replace(mug("a", duration=3.0), events=(Event("grasping the mug"),))
    late = mug("b", (0.75, 2.5))  # of 2.2 s
    empty, good = mug("c", (), video="videos/a.mp4"), mug("d", video="videos/a.mp4")
    write_manifest(tmp_path / "manifest.jsonl", [bare, late, empty, good])
    (tmp_path / "mug.toml").write_text(TASK)
    done = export_cosmos(tmp_path, tmp_path / "t.jsonl", video_root=source)
    assert done.kept == 1
    assert done.dropped == {
        "neither boundaries nor a caption": ["mug/a", "mug/c"], "boundary after the video": ["mug/b"]
    }  # fmt: skip
    caption(tmp_path / "c", "mug__a", None, "An arm takes a mug.")
    done = export_cosmos(tmp_path, tmp_path / "u.jsonl", video_root=source, captions=tmp_path / "c")
    assert rows(done.output)[0]["t2w_windows"][0]["caption"] == "An arm takes a mug."
    assert "actions" not in json.dumps(rows(done.output)[0])


def test_two_clips_of_one_uuid_are_refused(source: Path, tmp_path: Path) -> None:
    twins = [mug("x", clip=f"mug/{name}", video="videos/a.mp4") for name in ("a/b", "a__b")]
    write_manifest(tmp_path / "manifest.jsonl", twins)
    (tmp_path / "mug.toml").write_text(TASK)
    with pytest.raises(TempolocError, match="mug/a__b: mug__a__b is in mug/a/b already"):
        export_cosmos(tmp_path, tmp_path / "t.jsonl", video_root=source)
    assert not (tmp_path / "t.jsonl").exists()


# --- captions ---


def caption(folder: Path, name: str, structured: dict[str, Any] | str | None, dense: str | None) -> None:
    place = folder / name
    place.mkdir(parents=True)
    if structured is not None:
        (place / "caption.json").write_text(structured if isinstance(structured, str) else json.dumps(structured))
    if dense is not None:
        (place / "caption.txt").write_text(dense)


def test_captions_describe_and_the_truth_says_when(source: Path, tmp_path: Path) -> None:
    seen = {"subjects": [{"description": "an arm"}], "actions": [{"time": "0:00-0:01", "description": "a guess"}]}
    seen |= {"segments": [{"time_range": "0:00-0:09", "description": "a guess"}], "transitions": ["a cut"]}
    caption(tmp_path / "c", "mug__a", seen, "An arm takes a mug.")
    done = export_cosmos(source, tmp_path / "t.jsonl", captions=tmp_path / "c")
    a, b = (row["t2w_windows"][0] for row in rows(done.output))
    assert (a["caption"], a["caption_json"]["subjects"]) == ("An arm takes a mug.", seen["subjects"])
    assert a["caption_json"]["temporal_caption"] == "An arm takes a mug."
    assert [x["description"] for x in a["caption_json"]["actions"]] == ["grasping the mug", "releasing the mug"]
    assert [x["description"] for x in a["caption_json"]["segments"]] == ["grasping the mug", "releasing the mug"]
    assert a["caption_json"]["transitions"] == ["a cut"]
    assert "subjects" not in b["caption_json"]
    assert _read_cosmos(done.output, tmp_path).clips[0].boundaries == (0.75, 1.5)


def test_a_folder_of_captions_becomes_lines(source: Path, tmp_path: Path) -> None:
    captions = tmp_path / "c"
    caption(captions, "a", {"background_setting": "a kitchen", "temporal_caption": "Dense of a."}, None)
    caption(captions, "b", None, "Only dense.")
    caption(captions, "short", {"x": 1}, "Short.")
    caption(captions, "empty", None, "  ")
    caption(captions, "nowhere", {"x": 1}, "No video.")
    done = export_cosmos(captions, tmp_path / "t.jsonl", video_root=source / "videos")
    assert done.dropped == {
        "empty caption": ["empty"], "no video": ["nowhere"], "fewer than 61 frames": ["short"],
    }  # fmt: skip
    a, b = rows(done.output)
    assert a["t2w_windows"][0]["caption"] == "Dense of a."
    assert a["t2w_windows"][0]["caption_json"]["fps"] == 30
    assert "caption_json" not in b["t2w_windows"][0]
    assert summary_of(done.output)["kept_with_caption_json"] == 1
    assert "tempoloc" not in a


def test_captions_know_their_videos(source: Path, tmp_path: Path) -> None:
    caption(tmp_path / "c", "mug1", {"x": 1}, "A mug.")
    args = {"name": "mug1", "prompt": "A mug.", "vision_path": str(source / "videos" / "a.mp4")}
    (tmp_path / "c" / "mug1" / "sample_args.json").write_text(json.dumps(args))
    assert rows(export_cosmos(tmp_path / "c", tmp_path / "t.jsonl").output)[0]["uuid"] == "mug1"


def test_a_bad_caption_is_named(source: Path, tmp_path: Path) -> None:
    caption(tmp_path / "c", "a", "{", None)
    with pytest.raises(TempolocError, match=r"a/caption\.json is not JSON"):
        export_cosmos(tmp_path / "c", tmp_path / "t.jsonl", video_root=source / "videos")
    (tmp_path / "nothing").mkdir()
    with pytest.raises(TempolocError, match=r"neither a manifest\.jsonl nor captions"):
        export_cosmos(tmp_path / "nothing", tmp_path / "t.jsonl")
    assert read_captions(tmp_path / "nothing") == (None, "")


# --- other people's files ---


def window(*actions: tuple[str, str], **changes: Any) -> dict[str, Any]:
    told = [{"time": time, "description": text} for time, text in actions]
    return {"start_frame": 0, "end_frame": 99, "temporal_interval": 1, "caption_json": {"actions": told}, **changes}


def line(*windows: dict[str, Any], **changes: Any) -> dict[str, Any]:
    told = {"uuid": "ep0", "duration": 9.0, "width": 64, "height": 48, "vision_path": "videos/ep0.mp4"}
    return {**told, "t2w_windows": [*windows], **changes}


GRASP, LIFT = ("0:01-0:03", "it grasps"), ("0:03-0:07", "it lifts")


def read(tmp_path: Path, *found: Any, **options: Any) -> tuple[Clip, ...]:
    path = tmp_path / "theirs.jsonl"
    path.write_text("".join(f if isinstance(f, str) else json.dumps(f) + "\n" for f in found))
    return _read_cosmos(path, tmp_path, **({"task": "tray"} | options)).clips


def test_structured_captions_are_preferred_to_dense_ones(tmp_path: Path) -> None:
    (clip,) = read(tmp_path, line(window(GRASP, LIFT, caption="0:02-0:04: it waits.")))
    assert (clip.labels, clip.boundaries) == (("it grasps", "it lifts"), (1.0, 3.0))
    (clip,) = read(tmp_path, line(window(caption="0:02-0:04: it waits. 0:04-0:05.5: it ends.")))
    assert (clip.labels, clip.boundaries) == (("it waits", "it ends"), (2.0, 4.0))
    dense = {"caption_json": {"temporal_caption": "0:02-0:04: it waits."}}
    (clip,) = read(tmp_path, line(window(**dense)))
    assert clip.events == (Event("it waits", 2.0, 2.0, 4.0),)
    as_text = json.dumps({"actions": [{"time": "0:01-0:02", "description": "as text"}]})
    (clip,) = read(tmp_path, line(window(caption_json=as_text)))
    assert clip.labels == ("as text",)
    without = {k: v for k, v in window(caption="0:02-0:04: it waits.").items() if k != "caption_json"}
    (clip,) = read(tmp_path, line(without))
    assert clip.labels == ("it waits",)


def told(*spans: str) -> dict[str, Any]:
    return {"segments": [{"time_range": span, "description": f"from {span}"} for span in spans]}


def test_segments_are_read_where_no_actions_are(tmp_path: Path) -> None:
    (clip,) = read(tmp_path, line(window(caption_json=told("0:00-0:02", "0:02-0:05"), caption="0:03-0:04: no.")))
    assert clip.boundaries == (2.0,)  # the first begins with the video, not with an event
    (clip,) = read(tmp_path, line(window(caption_json=told("0:00-0:02", "0:02-0:05"))), boundary_is="end")
    assert clip.boundaries == (2.0, 5.0)
    (clip,) = read(tmp_path, line(window(caption_json={**window(GRASP)["caption_json"], "segments": "one shot"})))
    assert clip.labels == ("it grasps",)
    assert read(tmp_path, line(window(caption_json=told("0:00-0:09")))) == ()


def test_windows_are_put_on_the_videos_clock(tmp_path: Path) -> None:
    late = window(LIFT, start_frame=100, end_frame=239)
    (clip,) = read(tmp_path, line(window(GRASP), late, framerate=20.0, duration=20.0))
    assert clip.boundaries == (1.0, 8.0)
    late["caption_json"]["fps"] = 10
    (clip,) = read(tmp_path, line(window(GRASP), late, duration=20.0))
    assert clip.boundaries == (1.0, 13.0)


def test_lines_without_times_are_left_out_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_jsonl(path, [line(window(caption="An arm moves.")), line(window(GRASP), uuid="ep1")])
    done = import_cosmos(path, tmp_path / "m.jsonl", task="tray")
    assert (done.kept, done.dropped) == (1, {"no times in its captions": ["ep0"]})
    assert load_benchmark(tmp_path / "m.jsonl").tasks["tray"].events == ("it grasps",)
    write_jsonl(path, [line(window(caption="An arm moves."))])
    with pytest.raises(TempolocError, match=r"nothing to import: no times in its captions \(ep0\)"):
        import_cosmos(path, tmp_path / "n.jsonl", task="tray")
    assert not (tmp_path / "n.jsonl").exists()


def test_a_known_task_must_fit(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    write_jsonl(path, [line(window(GRASP))])
    (tmp_path / "tray.toml").write_text('key = "tray"\nevents = ["it lifts"]\n')
    with pytest.raises(TempolocError, match="tray is a known task without the event 'it grasps'"):
        import_cosmos(path, tmp_path / "m.jsonl", task="tray")
    (tmp_path / "tray.toml").write_text('key = "tray"\nevents = ["it grasps", "it lifts"]\n')
    assert not (tmp_path / "m.jsonl").exists()
    done = import_cosmos(path, tmp_path / "m.jsonl", task="tray", boundary_is="end")
    assert done.notes == ()
    assert load_benchmark(done.output).clips[0].boundaries == (3.0,)


@pytest.mark.parametrize("task", ["../tray", "a/b", ".tray", "", "a b"])
def test_a_task_that_cannot_name_a_file(task: str, tmp_path: Path) -> None:
    path = tmp_path / "in" / "x.jsonl"
    write_jsonl(path, [line(window(GRASP), tempoloc={"task": task, "clip": f"{task}/ep0"})])
    with pytest.raises(TempolocError, match=r"cannot be called|does not say which task"):
        import_cosmos(path, tmp_path / "in" / "m.jsonl")
    assert [p.name for p in tmp_path.rglob("*")] == ["in", "x.jsonl"]


def test_any_label_survives_in_a_new_task(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    label = 'Würfel 😀 "greifen" \\ hier'
    write_jsonl(path, [line(window(("0:01-0:03", label)))])
    import_cosmos(path, tmp_path / "m.jsonl", task="tray")
    assert load_benchmark(tmp_path / "m.jsonl").tasks["tray"].events == (label,)


def test_a_link_keeps_its_name(tmp_path: Path) -> None:
    (tmp_path / "blobs").mkdir()
    (tmp_path / "a.mp4").symlink_to(tmp_path / "blobs" / "123")
    assert relative_path(tmp_path / "a.mp4", tmp_path / "out") == "../a.mp4"


def test_a_video_elsewhere_is_remembered(tmp_path: Path) -> None:
    (clip,) = read(tmp_path, line(window(GRASP), vision_path="s3://bucket/ep0.mp4"))
    assert (clip.video, clip.extra) == (None, {"vision_path": "s3://bucket/ep0.mp4"})


@pytest.mark.parametrize(
    ("second", "message"),
    [
        ("{\n", "is not JSON"),
        (line(window(GRASP)), "tray/ep0 is in theirs.jsonl:1 already"),
        ({"uuid": "x"}, "lacks 'vision_path'"),
        (line(window(GRASP), uuid="x", vision_path="a\0b"), "is no path"),
        (line(window(GRASP), uuid=3), "uuid = 3 is not text"),
        (line(window(GRASP), uuid="x", duration="9"), 'duration = "9" is not a number'),
        (line(window(GRASP), uuid="x", duration=True), "duration = true is not a number"),
        (line(window(GRASP), uuid="x", duration=-1.0), "duration = -1.0: "),
        (line(window(GRASP), uuid="x", framerate=0), "framerate = 0: "),
        (line(window(GRASP), uuid="x", t2w_windows={}), "t2w_windows = {} is not a list"),
        (line("w", uuid="x"), 't2w_windows: 0 = "w" is not a table'),  # type: ignore[arg-type]
        (line(window(LIFT, GRASP), uuid="x"), "boundaries must increase"),
        (line(window(("soon", "it waits")), uuid="x"), "window 1: 'soon' is no time from M:SS to M:SS"),
        (line(window(("0:09-0:03", "it waits")), uuid="x"), "no time from M:SS to M:SS"),
        (line(window(("0:01-0:75", "it waits")), uuid="x"), "no time from M:SS to M:SS"),
        (line(window(("0:75:00-0:76:00", "it waits")), uuid="x", duration=9e3), "no time from M:SS to M:SS"),
        (line(window(("0:01-1:30", "it waits")), uuid="x"), "the clip lasts"),
        (line(window(LIFT, start_frame=90, end_frame=119), uuid="x", framerate=30), "is after it, for times"),
        (line(window(("0:01-0:03", " ")), uuid="x"), ": says nothing of what happens"),
        (line(window(caption_json={"actions": [3]}), uuid="x"), "caption_json.actions: 0 = 3 is not a table"),
        (line(window(caption_json={"actions": [{"time": "0:01-0:02"}]}), uuid="x"), "lacks 'description'"),
        (line(window(caption_json={"actions": "later"}), uuid="x"), 'actions = "later" is not a list'),
        (line(window(caption_json={"segments": "one"}), uuid="x"), 'window 1, segments: "one" is not a list'),
        (line(window(caption_json=told("soon")), uuid="x"), "window 1: 'soon' is no time from M:SS to M:SS"),
        (line(window(caption="0:01-0:02: ."), uuid="x"), ": says nothing of what happens"),
        (line(window(caption_json="{"), uuid="x"), "caption_json is not JSON"),
        (line(window(caption_json=[]), uuid="x"), "caption_json = [] is not a table"),
        (line(window(LIFT, start_frame=30), uuid="x"), "begins at a later frame, and nothing tells the frames/s"),
        (line(window(LIFT, start_frame="0"), uuid="x"), 'start_frame = "0" is not a whole number'),
        (line(window(("0:00-0:03", "it waits")), uuid="x"), "no boundary where it starts"),
        (line(window(GRASP), uuid="x", tempoloc=[]), "tempoloc = [] is not a table"),
        (line(window(GRASP), uuid="x", tempoloc={"boundary_is": "middle"}), 'boundary_is = "middle" is none of'),
        (line(window(GRASP), uuid="x", tempoloc={"boundary_is": "end"}), "are its events' ends here, and not before"),
    ],
)
def test_a_bad_line_of_theirs_is_named(second: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"^theirs\.jsonl:2") as error:
        read(tmp_path, line(window(GRASP)), second)
    assert message in str(error.value)
    assert all(fault.startswith("theirs.jsonl:2") for fault in str(error.value).splitlines())


def test_what_other_files_do_not_say_must_be_told(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"theirs\.jsonl:1 does not say which task ep0 is"):
        read(tmp_path, line(window(GRASP)), task=None)
    with pytest.raises(TempolocError, match="must be start or end"):
        read(tmp_path, line(window(GRASP)), boundary_is="middle")
    (clip,) = read(tmp_path, line(window(("0:00-0:03", "it waits"), LIFT)), boundary_is="end")
    assert clip.boundaries == (3.0, 7.0)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.floats(allow_nan=False) | st.text(max_size=9),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(
                st.sampled_from(["actions", "segments", "time_range", "time", "description", "task", "clip", "x"]),
                inner,
                max_size=3,
            )
        ),
        max_leaves=12,
    ),
    st.sampled_from(
        [
            "t2w_windows",
            "caption_json",
            "caption",
            "actions",
            "segments",
            "tempoloc",
            "duration",
            "framerate",
            "uuid",
            "vision_path",
        ]
    ),
)
@example("\x85", "t2w_windows")  # the end of a line, elsewhere
@example({"\u2028": 3}, "caption")
def test_whatever_stands_in_a_line_is_read_or_refused_in_one_line(value: Any, place: str) -> None:
    made = line(window(GRASP))
    if place in made or place in ("tempoloc", "framerate"):
        made[place] = value
    elif place in ("actions", "segments"):
        made["t2w_windows"][0]["caption_json"] = {place: value}
    else:
        made["t2w_windows"][0][place] = value
    with tempfile.TemporaryDirectory() as folder:
        said = "theirs.jsonl:1"
        try:
            read(Path(folder), made)
        except TempolocError as error:
            said = str(error)
    assert all(line.startswith("theirs.jsonl:1") for line in said.splitlines())  # a line for each fault


def test_objects_only() -> None:
    assert parse_object('{"a": 1}', "x") == {"a": 1}
    for text in itertools.chain('0"[n', ["null", '"a"']):
        with pytest.raises(TempolocError, match=r"^x is no"):
            parse_object(text, "x")


def test_paths_may_be_texts_and_one_file_may_stand_alone(tmp_path: Path) -> None:
    manifest = tmp_path / "m.jsonl"
    write_manifest(manifest, [mug("a")])
    (tmp_path / "mug.toml").write_text(TASK)
    with pytest.raises(TempolocError, match=r"no prediction file none\.jsonl"):
        export_dataset(str(manifest), str(tmp_path / "m.csv"), "csv", predictions="none.jsonl")
    for name in ("cosmos", "hf", "lmms-eval"):
        with pytest.raises(TempolocError):
            export_dataset(str(manifest), str(tmp_path / name), name, video_root=str(tmp_path / "none"))
