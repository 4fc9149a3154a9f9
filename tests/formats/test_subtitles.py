"""Subtitles as their editors save them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tempoloc_nb.clips.manifest import Clip
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.correction_files import read_vtt, write_vtt
from tempoloc_nb.formats.corrections import _Corrections, apply_rows, proposals

LABELS = ("taking the cup", "filling it & <b>waiting</b>", "handing it over")
CUP = Clip("cup/0", "cup", tuple(map(Event, LABELS, (1.6, 4.04, 7.2))), duration=8.0)


def shifted(clock: str, ms: int) -> str:
    """A WebVTT time, so much later."""
    hours, minutes, seconds = clock.split(":")
    total = round(1000 * (3600 * int(hours) + 60 * int(minutes) + float(seconds))) + ms
    return f"{total // 3_600_000:02}:{total // 60_000 % 60:02}:{total // 1000 % 60:02}.{total % 1000:03}"


def starts(text: str, ms: int) -> str:
    """Each cue but the first begins so much later."""
    return re.sub(r"(?m)^(\d\d:\d\d:0[1-9]\.\d{3}) -->", lambda m: f"{shifted(m[1], ms)} -->", text)


def ends(text: str, ms: int) -> str:
    """Each cue but the last ends so much earlier."""
    return re.sub(r"--> (\S+)(?=\n(?:.*\n)+?\n)", lambda m: f"--> {shifted(m[1], -ms)}", text)


def srt(text: str) -> str:
    """The cues in SubRip, as most editors write it."""
    cues = text.partition("}\n\n")[2]
    return re.sub(r"(\d\d:\d\d:\d\d)\.(\d{3})", r"\1,\2", cues)


WAYS: dict[str, Callable[[str], str | bytes]] = {
    "as it is": lambda t: t,
    "24 ms between": lambda t: starts(t, 24),
    "two frames of a film between": lambda t: starts(t, 83),
    "two frames at 25 fps between": lambda t: starts(t, 80),
    "an overlap of a frame": lambda t: starts(t, -33),
    "a mark": lambda t: "\ufeff" + t,
    "CRLF": lambda t: t.replace("\n", "\r\n"),
    "UTF-16": lambda t: b"\xff\xfe" + t.encode("utf-16-le"),
    "a title": lambda t: t.replace("WEBVTT", "WEBVTT - made by an editor\nKind: captions\nLanguage: en", 1),
    "no numbers": lambda t: re.sub(r"(?m)^\d\n(?=\d\d:)", "", t),
    "other names": lambda t: re.sub(r"(?m)^(\d)\n(?=\d\d:)", r"cue-\1\n", t),
    "no hours": lambda t: t.replace("00:00:0", "00:0"),
    "settings": lambda t: re.sub(r"(--> \S+)", r"\1 line:90% align:middle", t),
    "tabs around the arrow": lambda t: t.replace(" --> ", "\t-->\t"),
    "styles": lambda t: t.replace("\n\n1\n", "\n\nSTYLE\n::cue { color: lime; }\n\n1\n", 1),
    "comments": lambda t: t.replace("\n\n2\n", "\n\nNOTE look at this again\n\nNOTE\nand this\n\n2\n", 1),
    "our note in two lines": lambda t: t.replace("NOTE {", "NOTE\n{", 1),
    "our note at the end": lambda t: re.sub(r"(?s)(NOTE .*?\n)\n(.*)", r"\2\n\1", t),
    "italics": lambda t: t.replace("taking the cup", "<i>taking the cup</i>"),
    "nested classes": lambda t: t.replace("handing it over", "<c.yellow.bg><b>handing it over</b></c>"),
    "a voice": lambda t: t.replace("handing it over", "<v Arm>handing it over</v>"),
    "lines that are broken": lambda t: t.replace("handing it", "<i>handing</i>\n<i>it</i>"),
    "a part in italics": lambda t: t.replace("handing it", "handing <i>it</i>"),
    "spaces at the end": lambda t: t.replace("\n", "  \n").replace("WEBVTT  ", "WEBVTT", 1),
    "no last line end": lambda t: t.rstrip("\n"),
}


def edited(folder: Path, change: Callable[[str], str | bytes], name: str = "cup/0.vtt") -> _Corrections:
    """What comes back when a person has put the second boundary to 4.4 s, and an editor has saved it so."""
    write_vtt(proposals([CUP]), folder)
    path = folder / "cup/0.vtt"
    data = change(path.read_text().replace("00:00:04.040", "00:00:04.400"))
    path.unlink()
    (folder / name).write_bytes(data.encode() if isinstance(data, str) else data)
    return apply_rows([CUP], read_vtt(folder), who="Eve")


@pytest.mark.parametrize("way", WAYS)
def test_subtitles_are_read_as_an_editor_saves_them(way: str, tmp_path: Path) -> None:
    done = edited(tmp_path, WAYS[way])
    assert done.clips[0].boundaries == (1.6, 4.4, 7.2)
    assert [(c.label, c.old, c.new) for c in done.changes] == [(LABELS[1], 4.04, 4.4)]


SRT: dict[str, Callable[[str], str | bytes]] = {
    "as it is": srt,
    "a mark and CRLF": lambda t: "\ufeff" + srt(t).replace("\n", "\r\n"),
    "a font": lambda t: srt(t).replace("taking the cup", '<font color="#ffff00">taking the cup</font>'),
    "a place": lambda t: srt(t).replace("taking the cup", "{\\an8}taking the cup"),
    "coordinates": lambda t: re.sub(r"(--> \S+)", r"\1  X1:10 X2:20 Y1:5 Y2:6", srt(t)),
    "a gap": lambda t: srt(starts(t, 24)),
    "UTF-16": lambda t: b"\xfe\xff" + srt(t).encode("utf-16-be"),
}


@pytest.mark.parametrize("way", SRT)
@pytest.mark.parametrize("name", ["cup/0.srt", "cup/0.SRT"])
def test_subrip_is_read_too(way: str, name: str, tmp_path: Path) -> None:
    assert edited(tmp_path, SRT[way], name).clips[0].boundaries == (1.6, 4.4, 7.2)


def test_a_gap_that_an_editor_made_everywhere_moves_nothing(tmp_path: Path) -> None:
    write_vtt(proposals([CUP]), tmp_path)
    path = tmp_path / "cup/0.vtt"
    text = path.read_text()
    path.write_text(ends(text, 24))
    assert path.read_text().count("00:00:01.576") == path.read_text().count("00:00:04.016") == 1
    assert apply_rows([CUP], read_vtt(tmp_path), who="Eve").clips[0] is CUP
    moved = text.replace("--> 00:00:04.040", "--> 00:00:04.016")  # one end alone is a person's
    path.write_text(moved)
    assert apply_rows([CUP], read_vtt(tmp_path), who="Eve").clips[0].boundaries == (1.6, 4.016, 7.2)


def test_an_editor_that_rounds_to_hundredths_moves_nothing(tmp_path: Path) -> None:
    fine = Clip("cup/0", "cup", tuple(map(Event, LABELS, (1.232, 4.047, 7.2))), duration=8.0)
    write_vtt(proposals([fine]), tmp_path)
    path = tmp_path / "cup/0.vtt"
    text = path.read_text().replace("01.232", "01.230").replace("04.047", "04.050")
    path.write_text(text)
    assert apply_rows([fine], read_vtt(tmp_path), who="Eve").clips[0] is fine
    path.write_text(text.replace("04.050", "04.060"))
    assert apply_rows([fine], read_vtt(tmp_path), who="Eve").clips[0].boundaries == (1.232, 4.06, 7.2)


def test_a_longer_gap_means_nothing_where_the_end_was_moved(tmp_path: Path) -> None:
    done = edited(tmp_path, lambda t: t.replace("00:00:04.400 -->", "00:00:04.520 -->"))
    assert done.clips[0].boundaries == (1.6, 4.4, 7.2)


@pytest.mark.parametrize("ms", [-80, -24, -2, 2, 24, 80])
@pytest.mark.parametrize("form", ["0.vtt", "0.srt"])
@pytest.mark.parametrize("place", [1, 2])
def test_a_start_that_alone_was_moved_is_not_lost(place: int, form: str, ms: int, tmp_path: Path) -> None:
    """It counted as an editor's gap: 0 boundaries changed."""
    write_vtt(proposals([CUP]), tmp_path)
    path = tmp_path / "cup/0.vtt"
    clock = ("00:00:01.600", "00:00:04.040")[place - 1]
    text = path.read_text().replace(f"{clock} -->", f"{shifted(clock, ms)} -->")
    path.unlink()
    path.with_name(form).write_text(text if form == "0.vtt" else srt(text))
    said = rf"{form}:\d+: '{LABELS[place - 1][:10]}.* still ends at .*, but the cue after it starts .* move the end"
    with pytest.raises(TempolocError, match=said):
        apply_rows([CUP], read_vtt(tmp_path), who="Eve")


def test_a_first_start_that_was_moved_is_said(tmp_path: Path) -> None:
    write_vtt(proposals([CUP]), tmp_path)
    path = tmp_path / "cup/0.vtt"
    path.write_text(path.read_text().replace("00:00:00.000 -->", "00:00:00.060 -->"))
    with pytest.raises(TempolocError, match=r"0.vtt:6: the first cue starts at 00:00:00.060, not at 0"):
        read_vtt(tmp_path)


def test_a_millisecond_of_rounding_moves_no_start(tmp_path: Path) -> None:
    write_vtt(proposals([CUP]), tmp_path)
    path = tmp_path / "cup/0.vtt"
    path.write_text(path.read_text().replace("00:00:04.040 -->", "00:00:04.041 -->"))
    assert apply_rows([CUP], read_vtt(tmp_path), who="Eve").clips[0] is CUP


BAD: list[tuple[Callable[[str], str], str]] = [
    (lambda t: t.replace("00:00:01.600 -->", "00:00:01.700 -->"), r"0.vtt:10: a cue starts at 00:00:01.700, not where"),
    (lambda t: t.replace("00:00:04.400 -->", "00:00:04.600 -->"), r"0.vtt:14: a cue starts at 00:00:04.600, not where"),
    (lambda t: t.replace("00:00:04.400 -->", "00:00:03.100 -->"), r"0.vtt:14: a cue starts at 00:00:03.100"),
    (lambda t: t.replace("00:00:00.000 -->", "00:00:00.500 -->"), r"0.vtt:6: a cue starts at 00:00:00.500"),
    (lambda t: t.replace("00:00:07.200", "00:00:07.2"), r"0.vtt:14: .* is not START --> END"),
    (lambda t: t.replace("00:00:07.200", "00:00:77.200"), r"0.vtt:14: .* is not START --> END"),
    (lambda t: t.replace("\n\n2\n", "\n"), r"0.vtt:12: a cue starts at 00:00:04.400, not where"),
    (lambda t: t.replace("handing it over", "<x>handing</x> it over"), r"0.vtt:14: .* no row for 'handing it over'"),
    (lambda t: t.replace("1.6,", "NaN,"), r"0.vtt:3: the note is not as exported"),
    (lambda t: t.replace("1.6,", f"1{'0' * 400},"), r"0.vtt:3: the note is not as exported"),
    (lambda t: t.replace("1.6,", "[" * 100_000), r"0.vtt:3: the note is not as exported"),
    (srt, r"0.vtt:1 is not WebVTT: its first line must be WEBVTT"),
]


@pytest.mark.parametrize(("change", "message"), BAD)
def test_what_is_not_certain_is_refused_with_its_line(
    change: Callable[[str], str], message: str, tmp_path: Path
) -> None:
    with pytest.raises(TempolocError, match=message):
        edited(tmp_path, change)


def test_two_files_of_one_clip_are_refused(tmp_path: Path) -> None:
    write_vtt(proposals([CUP]), tmp_path)
    (tmp_path / "cup/0.srt").write_text(srt((tmp_path / "cup/0.vtt").read_text()))
    with pytest.raises(TempolocError, match=r"0.srt and 0.vtt are of one clip: keep the one that you corrected"):
        read_vtt(tmp_path)
