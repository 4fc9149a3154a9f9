"""A person's corrections, by CSV and by WebVTT."""

from __future__ import annotations

import csv
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.correction_files import read_csv, read_vtt, write_csv, write_vtt
from tempoloc_nb.formats.corrections import _Change, _Corrections, apply_rows, moved_clips, proposals
from tempoloc_nb.inference.consensus import Combined, CombinedEvent

WHEN = datetime(2026, 1, 2, tzinfo=UTC)
A = Clip(
    "stack/0", "stack",
    (Event("grasp", 1.2345, 1.2345, 2.5), Event("release", 2.5, 2.5, 4.0), Event("grasp again, <b>", 4.0, 4.0, 5.5)),
    video="videos/0.mp4", fps=30.0, duration=6.0, extra={"note": "kept"},
)  # fmt: skip
B = Clip("stack/1", "stack", (Event("grasp", 1.0), Event("release", 2.0)), duration=3.0)
# Annotated as if at 30 fps in a video of 15: the person sees seconds of the video, twice the annotated ones.
SLOW = Clip("bridge/0", "bridge", (Event("touch", 0.7), Event("lift", 1.1)), fps=15.0, label_fps=30.0, duration=4.0)
CLIPS = (A, B, SLOW)


def export_csv(clips: Iterable[Clip], path: Path, combined: Sequence[Combined] = ()) -> Path:
    write_csv(proposals(clips, combined), path)
    return path


def import_csv(clips: Iterable[Clip], path: Path, **told: Any) -> _Corrections:
    return apply_rows(clips, read_csv(path), **told)


def export_vtt(clips: Iterable[Clip], folder: Path, combined: Sequence[Combined] = ()) -> None:
    write_vtt(proposals(clips, combined), folder)


def import_vtt(clips: Iterable[Clip], folder: Path, **told: Any) -> _Corrections:
    return apply_rows(clips, read_vtt(folder), **told)


def edit(path: Path, old: str, new: str) -> Path:
    text = path.read_text()
    assert text.count(old) == 1, old
    path.write_text(text.replace(old, new))
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    return export_csv(CLIPS, tmp_path / "labels.csv")


@pytest.fixture
def subtitles(tmp_path: Path) -> Path:
    export_vtt(CLIPS, tmp_path / "vtt")
    return tmp_path / "vtt"


def test_what_nobody_changed_is_the_same_manifest(table: Path, subtitles: Path, tmp_path: Path) -> None:
    for done in (import_csv(CLIPS, table, who="me"), import_vtt(CLIPS, subtitles, who="me")):
        assert all(new is old for new, old in zip(done.clips, CLIPS, strict=True))
        assert (done.changes, done.read) == ((), 3)
    write_manifest(tmp_path / "a.jsonl", CLIPS)
    write_manifest(tmp_path / "b.jsonl", done.clips)
    assert (tmp_path / "a.jsonl").read_bytes() == (tmp_path / "b.jsonl").read_bytes()


def test_a_change_moves_the_intervals_that_touch_it_and_says_who_when_and_why(table: Path, tmp_path: Path) -> None:
    edit(table, "release,2.5,2.5,manifest,,", "release,2.75,2.5,manifest,,fingers open")
    done = import_csv(CLIPS, table, who="A. Reader", why="second look", when=WHEN)
    clip = done.clips[0]
    assert clip.events == (
        Event("grasp", 1.2345, 1.2345, 2.75), Event("release", 2.75, 2.75, 4.0), A.events[2],
    )  # fmt: skip
    assert clip.extra == {
        "note": "kept",
        "corrections": [{
            "who": "A. Reader", "when": "2026-01-02T00:00:00+00:00", "why": "second look", "from": "manifest",
            "changed": [{"label": "release", "old": 2.5, "new": 2.75, "why": "fingers open"}],
        }],
    }  # fmt: skip
    assert done.clips[1:] == CLIPS[1:]
    assert done.changes == (_Change("stack/0", "release", 2.5, 2.75, "fingers open"),)
    assert str(done) == "1 boundaries of 1 clips changed; 3 of 3 clips read; moved by up to 0.250 s"
    write_manifest(tmp_path / "m.jsonl", done.clips)
    assert read_manifest(tmp_path / "m.jsonl") == done.clips
    again = export_csv(done.clips, table.with_name("again.csv"))
    edit(again, "release,2.75,2.75", "release,2.8,2.75")
    assert len(import_csv(done.clips, again, who="B").clips[0].extra["corrections"]) == 2  # history grows


def test_times_are_of_the_video_also_where_labels_were_counted_otherwise(table: Path, subtitles: Path) -> None:
    assert "bridge/0,lift,2.2," in table.read_text()
    assert "00:00:01.400 --> 00:00:02.200" in (subtitles / "bridge/0.vtt").read_text()
    edit(table, "lift,2.2,2.2", "lift,3.0,2.2")
    assert import_csv(CLIPS, table, who="me").clips[2].boundaries == (0.7, 1.5)
    edit(subtitles / "bridge/0.vtt", "00:00:02.200", "00:00:03.000")
    assert import_vtt(CLIPS, subtitles, who="me").clips[2].boundaries == (0.7, 1.5)


@pytest.mark.parametrize("separator", [";", "\t"])
def test_spreadsheets_may_write_semicolons_tabs_commas_and_a_mark(separator: str, table: Path) -> None:
    rows = list(csv.reader(table.open()))
    rows[1][2] = "1.3"
    lines = [separator.join(c.replace(".", ",") if i in (2, 3) else f'"{c}"' for i, c in enumerate(r)) for r in rows]
    table.write_bytes(b"\xef\xbb\xbf" + "\r\n".join([*lines, separator * 6, ""]).encode())
    assert import_csv(CLIPS, table, who="me").clips[0].boundaries == (1.3, 2.5, 4.0)


def test_three_columns_are_enough_and_clips_may_be_left_out(tmp_path: Path) -> None:
    path = tmp_path / "own.csv"
    path.write_text("label,clip,boundary\nrelease,stack/1,2.5\ngrasp,stack/1,1\n")
    done = import_csv(CLIPS, path, who="me")
    assert done.clips[1].boundaries == (1.0, 2.5)
    assert done.read == 1


BAD_ROWS = [
    ("release,2.5,2.5", "releas,2.5,2.5", r"labels.csv:3: .* no row for 'release', but one for 'releas'"),
    ("stack/1,grasp", "stack/7,grasp", r"labels.csv:6: stack/1: there is no row for 'grasp', but one for 'release'"),
    ("release,2.5,2.5", "release,1.0,2.5", r"labels.csv:3: stack/0: 'release' at 1 s must come after 'grasp' at"),
    ("release,2.5,2.5", "release,-1,2.5", r"labels.csv:3: -1 s is outside stack/0, from 0 to 6 s"),
    ("release,2.0,2.0", "release,3.5,2.0", r"labels.csv:6: 3.5 s is outside stack/1, from 0 to 3 s"),
    ("release,2.5,2.5", "release,nan,2.5", r"labels.csv:3: boundary 'nan' is not a number"),
    ("release,2.5,2.5", "release,2:30,2.5", r"labels.csv:3: boundary '2:30' is not a number"),
    ("release,2.5,2.5", "release,,2.5", r"labels.csv:3: stack/0 has no boundary for 'release': fill it in"),
    ("release,2.5,2.5", "release,2.6,2.4", r"labels.csv:3: .* was at 2.4 s when .* now says 2.5 s: export again"),
    ("release,2.5,2.5,manifest", "release,2.6,2.5,me", r"labels.csv:3: stack/0: column by"),
    ("stack/1,release,2.0,2.0,manifest,,\n", "", r"labels.csv:5: stack/1: there is no row for 'release'; its events"),
    ("stack/1,release", "stack/1,grasp,1.5,,manifest,,\nstack/1,release", r"csv:6: one row too many for stack/1"),
    ("stack/1,release,2.0,2.0,manifest,,", "stack/1,release,2.0", r"labels.csv:6 has 3 cells, the first line 7"),
    ("clip,label,boundary", "clip,label,time", r"labels.csv:1 needs one column 'boundary'"),
    ("confidence,why", "confidence,reason", r"labels.csv:1 has the unknown column 'reason'"),
    ("4.0,4.0,manifest", "5.9,4.0,manifest", r"labels.csv:4: 'grasp again, <b>' would start at 5.9 s and end at 5.5"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_ROWS)
def test_a_wrong_line_is_named(table: Path, old: str, new: str, message: str) -> None:
    with pytest.raises(TempolocError, match=message):
        import_csv(CLIPS, edit(table, old, new), who="me")


def test_an_unknown_clip_and_nobody_are_refused(table: Path, tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"labels.csv:2: the manifest has no clip 'stack/0'"):
        import_csv((B, SLOW), table, who="me")
    with pytest.raises(TempolocError, match="say who"):
        import_csv(CLIPS, table, who=" ")
    with pytest.raises(TempolocError, match=r"cannot read the corrections file .*no.csv: No such file"):
        import_csv(CLIPS, tmp_path / "no.csv", who="me")
    table.write_bytes(b"clip,label,boundary\n\xff")
    with pytest.raises(TempolocError, match=r"labels.csv is not UTF-8 text, byte 20"):
        import_csv(CLIPS, table, who="me")
    table.write_text('clip,label,boundary\n"' + "x" * 140_000)
    with pytest.raises(TempolocError, match=r"labels.csv:2 is not a line of a table: field larger"):
        import_csv(CLIPS, table, who="me")


def test_subtitles_are_plain_webvtt(subtitles: Path) -> None:
    text = (subtitles / "stack/0.vtt").read_text()
    assert text.startswith("WEBVTT\n\nNOTE {")
    assert text.endswith(
        "\n\n1\n00:00:00.000 --> 00:00:01.234\ngrasp\n\n2\n00:00:01.234 --> 00:00:02.500\nrelease\n\n"
        "3\n00:00:02.500 --> 00:00:04.000\ngrasp again, &lt;b&gt;\n"
    )
    assert text.count("-->") == 3


def test_the_end_of_a_cue_is_the_boundary(subtitles: Path) -> None:
    edit(subtitles / "stack/0.vtt", "--> 00:00:02.500", "--> 00:02.700 align:start")  # the next start left as it was
    done = import_vtt(CLIPS, subtitles, who="me", when=WHEN)
    assert done.clips[0].boundaries == (1.2345, 2.7, 4.0)  # the first is not cut to milliseconds
    assert [(c.label, c.old, c.new) for c in done.changes] == [("release", 2.5, 2.7)]


BAD_CUES = [
    ("00:00:02.500 -->", "00:00:02.600 -->", r"0.vtt:14: a cue starts at 00:00:02.600, not where the last ends"),
    ("--> 00:00:04.000", "--> 00:00:07.000", r"0.vtt:14: 7 s is outside stack/0"),
    ("--> 00:00:04.000", "--> 4.0", r"0.vtt:14: .* is not START --> END"),
    ("--> 00:00:04.000", f"--> {'9' * 500}:00:04.000", r"0.vtt:14: .* is not START --> END"),
    ("\nrelease", "\nlet go", r"0.vtt:10: stack/0: there is no row for 'release', but one for 'let go'"),
    ("WEBVTT", "SUBTITLES", r"0.vtt:1 is not WebVTT"),
    ('NOTE {"clip"', 'NOTE {"klip"', r"0.vtt:3: the note is not as exported"),
    ("\n3\n00:00:02.500 --> 00:00:04.000\ngrasp again, &lt;b&gt;", "", r"there is no row for 'grasp again"),
]


@pytest.mark.parametrize(("old", "new", "message"), BAD_CUES)
def test_a_wrong_cue_is_named(subtitles: Path, old: str, new: str, message: str) -> None:
    edit(subtitles / "stack/0.vtt", old, new)
    with pytest.raises(TempolocError, match=message):
        import_vtt(CLIPS, subtitles, who="me")


def test_without_its_note_a_file_is_the_clip_of_its_path(subtitles: Path) -> None:
    path = subtitles / "stack/1.vtt"
    path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("NOTE")))
    edit(path, "--> 00:00:02.000", "--> 00:00:02.250")
    assert import_vtt(CLIPS, subtitles, who="me").clips[1].boundaries == (1.0, 2.25)
    with pytest.raises(TempolocError, match=r"none is not a folder of .vtt files"):
        import_vtt(CLIPS, subtitles / "none", who="me")


def answer(clip: Clip, *times: float | None, model: str = "m") -> Combined:
    events = [CombinedEvent(n, t, None, 0.1, 0.8, 5) for n, t in zip(clip.labels, times, strict=True)]
    return Combined(clip.clip, clip.task, model, 8.0, "start", 5, tuple(events))


def test_a_models_answers_replace_the_manifests_and_say_so(tmp_path: Path) -> None:
    path = export_csv(CLIPS, tmp_path / "m.csv", combined=[answer(SLOW, 1.5, None)])
    assert len(path.read_text().splitlines()) == 3
    with pytest.raises(TempolocError, match=r"m.csv:3: bridge/0 has no boundary for 'lift': fill it in"):
        import_csv(CLIPS, path, who="me")
    edit(path, "lift,,", "lift,2.4,")
    done = import_csv(CLIPS, path, who="me", when=WHEN)
    assert done.clips[:2] == CLIPS[:2]
    assert done.clips[2].boundaries == (0.75, 1.2)
    (entry,) = done.clips[2].extra["corrections"]
    assert entry["from"] == "m at 8 fps, median of 5"
    assert entry["changed"] == [{"label": "lift", "new": 2.4}]
    assert done.changes[0].seconds is None


def test_answers_that_cannot_be_exported(tmp_path: Path) -> None:
    for times in ((1.5, None), (1.5, 1.2)):
        with pytest.raises(TempolocError, match=r"bridge/0: a boundary is missing or out of order .*: export CSV"):
            export_vtt(CLIPS, tmp_path / "v", combined=[answer(SLOW, *times)])
    assert not (tmp_path / "v").exists()
    with pytest.raises(TempolocError, match="by several models or fps"):
        proposals(CLIPS, [answer(SLOW, 1.0, 2.0), answer(SLOW, 1.0, 2.0, model="n")])
    with pytest.raises(TempolocError, match="which the manifest lacks"):
        proposals((A,), [answer(SLOW, 1.0, 2.0)])
    with pytest.raises(TempolocError, match="cannot be a file's name"):
        export_vtt([Clip("../x", "..", B.events, duration=3.0)], tmp_path / "v")


def test_a_clip_without_truth_is_shown_blank_and_filled(tmp_path: Path) -> None:
    bare = Clip("cup/0", "cup", tuple(map(Event, ["grasp", "pour", "set down"])), duration=4.0)
    path = export_csv([bare], tmp_path / "c.csv")
    assert "cup/0,grasp,,,,," in path.read_text()
    path.write_text("clip,label,boundary\ncup/0,grasp,1\ncup/0,pour,1.5\ncup/0,set down,3.5\n")
    done = import_csv([bare], path, who="me")
    assert done.clips[0].boundaries == (1.0, 1.5, 3.5)
    assert [c.old for c in done.changes] == [None] * 3


def test_a_manifest_elsewhere_points_to_the_same_videos(tmp_path: Path) -> None:
    moved = moved_clips(CLIPS, tmp_path / "a", tmp_path / "b" / "c")
    assert (tmp_path / "b" / "c" / str(moved[0].video)).resolve() == (tmp_path / "a" / "videos/0.mp4").resolve()
    assert moved[1] is B


times = st.lists(st.floats(0.002, 50), min_size=1, max_size=6, unique=True).map(sorted)


@settings(max_examples=60)
@given(times, st.data())
def test_any_boundaries_survive_a_round_trip(
    tmp_path_factory: pytest.TempPathFactory, at: list[float], data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("c")
    labels = [data.draw(st.text(st.characters(codec="utf-8", exclude_categories=("C", "Z")), min_size=1)) for _ in at]
    clip = Clip("t/0", "t", tuple(Event(n, t) for n, t in zip(labels, at, strict=True)), duration=60.0)
    assert import_csv([clip], export_csv([clip], folder / "c.csv"), who="me").clips[0] is clip
    if all(round(b * 1000) > round(a * 1000) for a, b in zip([0.0, *at], at, strict=False)):
        export_vtt([clip], folder / "v")
        assert import_vtt([clip], folder / "v", who="me").clips[0] is clip


def test_corrected_subtitles_are_not_written_over(subtitles: Path) -> None:
    mine = sorted(subtitles.rglob("*.vtt"))[-1]
    mine.write_text("corrected")
    with pytest.raises(TempolocError, match="is there already: give another name"):
        write_vtt(proposals(CLIPS), subtitles)
    assert mine.read_text() == "corrected"
    write_vtt(proposals(CLIPS), subtitles, force=True)
    assert mine.read_text().startswith("WEBVTT")


@pytest.mark.parametrize("word", ["Absent", "missing"])  # the second in tables of before 0.3
def test_an_event_that_is_not_in_the_video_is_written_as_absent(tmp_path: Path, word: str) -> None:
    table = tmp_path / "t.csv"
    table.write_text(f"clip,label,boundary,proposed\na/1,grasp,1.0,1.0\na/1,lift,{word},2.0\n")
    rows = read_csv(table)
    assert [(r.label, r.boundary, r.proposed) for r in rows] == [("grasp", 1.0, 1.0), ("lift", None, 2.0)]
    clip = Clip("a/1", "a", (Event("grasp", 1.0), Event("lift", 2.0)))
    (done,) = apply_rows([clip], rows, who="Ada").clips
    assert done.events == (Event("grasp", 1.0), Event("lift", absent=True))
    write_csv(proposals([done]), table, force=True)
    assert apply_rows([done], read_csv(table), who="Eve").clips == (done,)
    with pytest.raises(TempolocError, match="a/1: 'lift' is not in the video"):
        write_vtt(proposals([done]), tmp_path)
    assert done.extra["corrections"][0]["changed"] == [{"label": "lift", "old": 2.0, "missing": True}]
