"""Tables as spreadsheets save them, and cells that no spreadsheet may run."""

from __future__ import annotations

import csv
import io
import json
import shutil
import subprocess
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb import reviewer
from tempoloc_nb.clips.manifest import Clip, read_manifest, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.convert import export_dataset, import_dataset
from tempoloc_nb.formats.correction_files import _REVIEWED, _cell_text, read_csv, text_cell, write_csv
from tempoloc_nb.formats.corrections import _Corrections, _Reviewed, apply_rows, proposals, reviewed
from tempoloc_nb.formats.found import _found_csv
from tempoloc_nb.inference.found import Found, FoundEvent

WHEN = datetime(2026, 3, 4, 5, 6, 7, tzinfo=UTC)
STEPS = (Event("lifting the jug", 0.75), Event("tilting it", 2.125), Event("setting it down", 6.5))
POUR = Clip("pour/0", "pour", STEPS, duration=9.0)
LID = Clip("lid/a b", "lid", (Event("turning the lid", 3.25),), duration=5.0)
CLIPS = (POUR, LID)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    write_csv(proposals(CLIPS), tmp_path / "t.csv")
    return tmp_path / "t.csv"


def saved(table: Path, data: str | bytes, **told: Any) -> _Corrections:
    """What comes back of a table that a spreadsheet saved as this."""
    table.write_bytes(data.encode() if isinstance(data, str) else data)
    return apply_rows(CLIPS, read_csv(table), who="Eve", when=WHEN, **told)


def moved(text: str) -> str:
    """The tilt at 2.5 s."""
    assert text.count("tilting it,2.125,") == 1
    return text.replace("tilting it,2.125,", "tilting it,2.5,")


def joined(text: str, separator: str, number: Callable[[str], str] = lambda cell: cell, quote: bool = False) -> str:
    rows = [[number(c) if i in (2, 3, 5) else c for i, c in enumerate(row)] for row in csv.reader(io.StringIO(text))]
    made = io.StringIO()
    way = csv.QUOTE_ALL if quote else csv.QUOTE_MINIMAL
    csv.writer(made, delimiter=separator, quoting=way, lineterminator="\r\n").writerows(rows)
    return made.getvalue()


def comma(cell: str) -> str:
    return cell.replace(".", ",")


WAYS: dict[str, Callable[[str], str | bytes]] = {
    "as it is": lambda t: t,
    "empty columns": lambda t: "".join(f"{line},,,\n" for line in t.splitlines()),
    "empty columns before": lambda t: "".join(f",{line}\n" for line in t.splitlines()),
    "empty lines": lambda t: ",,,,,,\n" + t.replace("\n", "\n,,,,,,\n") + "\n \n\n",
    "a mark": lambda t: "\ufeff" + t,
    "two marks": lambda t: "\ufeff\ufeff" + t,
    "CRLF": lambda t: t.replace("\n", "\r\n"),
    "old Mac": lambda t: t.replace("\n", "\r"),
    "all quoted": lambda t: joined(t, ",", quote=True),
    "semicolons": lambda t: joined(t, ";", comma),
    "semicolons and points": lambda t: joined(t, ";"),
    "semicolons, quoted": lambda t: "\ufeff" + joined(t, ";", comma, quote=True),
    "quoted decimal commas": lambda t: joined(t, ",", comma),
    "tabs": lambda t: joined(t, "\t", comma),
    "bars": lambda t: joined(t, "|"),
    "sep=": lambda t: "sep=;\r\n" + joined(t, ";", comma),
    "Unicode text": lambda t: b"\xff\xfe" + joined(t, "\t", comma).encode("utf-16-le"),
    "Unicode text, the other way": lambda t: joined(t, "\t").encode("utf-16-be").join([b"\xfe\xff", b""]),
    "header in capitals": lambda t: t.replace("clip,label,boundary", "Clip, LABEL ,Boundary "),
    "spaces": lambda t: t.replace(",", " , ").replace("\n", "  \n"),
    "no empty cells at the end": lambda t: "".join(line.rstrip(",") + "\n" for line in t.splitlines()),
    "columns moved": lambda t: "".join(",".join(reversed(row)) + "\n" for row in csv.reader(io.StringIO(t))),
    "no last line end": lambda t: t.rstrip("\n"),
    "exponents": lambda t: t.replace(",2.5,", ",2.5E+00,"),
    "a point only": lambda t: t.replace(",6.5,6.5,", ",6.50,6.5,").replace(",0.75,0.75", ",.75,0.75"),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_table_is_read_as_a_spreadsheet_saves_it(way: str, table: Path) -> None:
    done = saved(table, WAYS[way](moved(table.read_text())))
    assert done.clips[0].boundaries == (0.75, 2.5, 6.5)
    assert done.clips[1] is LID
    assert [(c.label, c.old, c.new) for c in done.changes] == [("tilting it", 2.125, 2.5)]


HEAD = "clip,label,boundary,proposed,by\n"
BAD = [
    (HEAD + 'lid/a b,turning the lid,"3,125",3.25,manifest\n', r"t.csv:2: .* '3,125' may be 3.125 or 3125: write"),
    (HEAD + 'pour/0,x,"0,5",1.2,m\nlid/a b,turning the lid,1.125,3.25,manifest\n', r"t.csv:3: .* may be 1.125 or 1125"),
    (HEAD.replace(",", "\t") + "lid/a b\tturning the lid\t3,125\t3,250\tmanifest\n", r"t.csv:2: .* '3,125' may be"),
    (HEAD.replace(",", ";") + "lid/a b;turning the lid;1.234,5;3,25;manifest\n", r"t.csv:2: boundary '1.234,5' is not"),
    (HEAD + "lid/a b,turning the lid,1_0,3.25,manifest\n", r"t.csv:2: boundary '1_0' is not a number"),
    (HEAD + "lid/a b,turning the lid,٣,3.25,manifest\n", r"t.csv:2: boundary '٣' is not a number"),
    (HEAD + "lid/a b,turning the lid,01. Mar,3.25,manifest\n", r"t.csv:2: boundary '01. Mar' is not a number"),
    (HEAD + "lid/a b,turning the lid,2.5 s,3.25,manifest\n", r"t.csv:2: boundary '2.5 s' is not a number"),
    (HEAD + "lid/a b,turning the lid,1e400,3.25,manifest\n", r"t.csv:2: boundary '1e400' is not a number"),
    (HEAD + "lid/a b,turning the lid,2.5,3.25,manifest,,7\n", r"t.csv:2 has 7 cells, the first line 5"),
    (HEAD[:-1] + ",,\nlid/a b,turning the lid,2.5,3.25,manifest,,see me\n", r"t.csv:2: 'see me' stands in a column"),
    (HEAD + "lid/a b,turning the lid,2.5\n", r"t.csv:2 has 3 cells, the first line 5"),
    (HEAD + ",turning the lid,2.5,3.25,manifest\n", r"t.csv:2 names no clip: fill it in"),
    (HEAD + "lid/a b,,2.5,3.25,manifest\n", r"t.csv:2 names no event: fill it in"),
    (HEAD[:-1] + ",label\nlid/a b,x,1,1,m,y\n", r"t.csv:1 needs one column 'label'"),
    (HEAD[:-1] + ",by\nlid/a b,x,1,1,m,y\n", r"t.csv:1 has the column 'by' twice"),
    (HEAD + 'lid/a b,"turning the lid,2.5,3.25,manifest\n', r"t.csv:2 is not a line of a table: unexpected end"),
    (HEAD + 'lid/a b,"turning" the lid,2.5,3.25,manifest\n', r"t.csv:2 is not a line of a table: "),
    ("video,event,boundary_s,confidence,status\na.mp4,x,1,1,ok\n", r"is the table that tempoloc find writes"),
    ("", r"t.csv:1 needs one column 'clip'; found: $"),
    (b"\xff\xfe" + "clip\tlabel".encode("utf-16-le") + b"x", r"is not UTF-8 text"),
    ("clip,label,boundary\nlid/a b,caf\xe9,1\n".encode("latin-1"), r"is not UTF-8 text, byte 31: save it as UTF-8"),
]  # fmt: skip


@pytest.mark.parametrize(("data", "message"), BAD)
def test_what_is_not_certain_is_refused_with_its_line(data: str | bytes, message: str, table: Path) -> None:
    with pytest.raises(TempolocError, match=message):
        saved(table, data)


def test_a_number_that_went_out_so_needs_no_other_witness(table: Path) -> None:
    text = HEAD.replace(",", "\t") + "lid/a b\tturning the lid\t3,250\t3,250\tmanifest\n"
    assert saved(table, text).changes == ()


FORMULAS = ("=1+1", "+1", "-2", "@SUM(A1)", '=HYPERLINK("http://x")', "'=x", "''@x", "\tx", "\rx", "-", "=")
PLAIN = ("grasp", "'tis", "a=b", "'", "", " =x", "1-2", "Ünder")


def test_texts_that_look_like_formulas_come_back_unchanged() -> None:
    assert all(text_cell(text) == f"'{text}" and _cell_text(text_cell(text)) == text for text in FORMULAS)
    assert all(text_cell(text) == text and _cell_text(text) == text for text in PLAIN)


def test_no_cell_of_a_table_is_a_formula(tmp_path: Path) -> None:
    events = [Event(text, i + 1.5) for i, text in enumerate(t for t in FORMULAS if t.strip() == t)]
    odd = Clip("@t/=1", "@t", tuple(events), duration=20.0)
    path = tmp_path / "t.csv"
    write_csv(proposals([odd]), path)
    cells = [cell for row in csv.reader(path.open(newline="")) for cell in row]
    assert not [cell for cell in cells if cell.startswith(("=", "+", "-", "@", "\t", "\r"))]
    rows = read_csv(path)
    assert [(r.clip, r.label, r.boundary) for r in rows] == [("@t/=1", e.label, e.boundary) for e in events]
    assert apply_rows([odd], rows, who="Eve").clips[0] is odd
    path.write_text("clip,label,boundary,why\n@t/=1,=hand,1.5,-1 frame\n")  # a person's own table needs no apostrophe
    assert [(r.label, r.why) for r in read_csv(path)] == [("=hand", "-1 frame")]


def test_what_find_found_holds_no_formula() -> None:
    found = Found(Path("=a.mp4"), (FoundEvent("@x", 1.5, "ok", 0.5),), "m", 4.0, 8.0)
    assert _found_csv([found]).splitlines()[1] == "'=a.mp4,'@x,1.5,0.5,ok"


@pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
def test_the_page_that_saves_nothing_writes_the_same_cells() -> None:
    code = (Path(reviewer.__file__).parent / "web" / "backends.js").read_text()
    data = {"clips": [{"clip": "@a/0", "labels": list(FORMULAS), "boundaries": [1.5] * len(FORMULAS), "by": "-m"}]}
    code += f"\nconsole.log(JSON.stringify(still({json.dumps(data)}).table(new Map()).text));"
    command = ["node", "--input-type=module", "-e", code]
    said = json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    rows = list(csv.reader(io.StringIO(said, newline="")))[1:]
    assert [[_cell_text(row[1]), *row[:1], *row[2:5]] for row in rows] == [
        [text, "'@a/0", "1.5", "1.5", "'-m"] for text in FORMULAS
    ]


def columns(path: Path) -> list[tuple[str, ...]]:
    names = ("label", "boundary", "proposed", "by", *_REVIEWED)
    return [tuple(row[name] for name in names) for row in csv.DictReader(path.open(newline=""))]


def review(clips: tuple[Clip, ...], who: str, **times: str) -> tuple[Clip, ...]:
    """Clips as a person leaves the first: label → time, or absent."""
    text = "clip,label,boundary,proposed,by\n"
    for event in clips[0].events:
        time = times.get(event.label.split()[0], event.boundary)
        text += f"{clips[0].clip},{event.label},{time},{event.boundary},manifest\n"
    path = Path("given.csv")
    path.write_text(text)
    return apply_rows(clips, read_csv(path), who=who, when=WHEN, accept=True).clips


def test_a_reviewed_table_says_who_and_what_was_proposed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    once = review(CLIPS, "=Eve", tilting="2.5")
    twice = review(once, "Bob", tilting="2.75", setting="absent")
    write_csv(proposals(twice), tmp_path / "r.csv")
    bob, stamp = "Bob, 2026-03-04T05:06:07+00:00", reviewed(twice[0])
    assert stamp
    assert (stamp.stamp, stamp.gone, stamp.first) == (bob, (), (0.75, 2.125, 6.5))
    assert columns(tmp_path / "r.csv") == [
        ("lifting the jug", "0.75", "0.75", "manifest", bob, "0.75", "manifest"),
        ("tilting it", "2.75", "2.75", "Bob", bob, "2.125", "manifest"),
        ("setting it down", "absent", "", "Bob", bob, "6.5", "manifest"),
        ("turning the lid", "3.25", "3.25", "manifest", "", "", ""),
    ]
    assert apply_rows(twice, read_csv(tmp_path / "r.csv"), who="Eve").clips == twice  # nothing was changed
    text = (tmp_path / "r.csv").read_text()
    (tmp_path / "r.csv").write_text(text.replace("lifting the jug,0.75,", "lifting the jug,0.5,"))
    done = apply_rows(twice, read_csv(tmp_path / "r.csv"), who="Eve", when=WHEN)
    assert done.clips[0].times == (0.5, 2.75, None)
    write_csv(proposals(once), tmp_path / "once.csv")
    assert columns(tmp_path / "once.csv")[1][3:] == ("'=Eve", "'=Eve, 2026-03-04T05:06:07+00:00", "2.125", "manifest")
    assert apply_rows(once, read_csv(tmp_path / "once.csv"), who="Eve").clips == once
    with pytest.raises(TempolocError, match=r"was at 2\.5 s when it was exported and the manifest now says 2\.75 s"):
        apply_rows(twice, read_csv(tmp_path / "once.csv"), who="Eve")


def test_who_proposed_first_is_kept_through_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    changed = [{"label": "turn", "old": 1.0, "new": 1.5}, {"label": "turn", "old": 1.5, "new": 2.0}]
    entry = {"who": "Ada", "when": "2026-01-01", "from": "tiny at 8 fps, median of 5", "changed": changed}
    events = (Event("turn", 1.5), Event("turn", 2.0), Event("stop", 3.0))
    twice = Clip("t/0", "t", events, extra={"corrections": [entry]})
    write_manifest("m.jsonl", [twice])
    (tmp_path / "t.toml").write_text('key = "t"\nevents = ["turn", "stop"]\n')
    export_dataset("m.jsonl", "t.csv", "csv")
    tiny = "tiny at 8 fps, median of 5"
    assert [row[3:] for row in columns(tmp_path / "t.csv")] == [
        (who, "Ada, 2026-01-01", first, tiny) for who, first in (("Ada", "1.0"), ("Ada", "1.5"), (tiny, "3.0"))
    ]
    import_dataset("t.csv", "out.jsonl", "csv", manifest="m.jsonl", who="Eve")
    assert read_manifest("out.jsonl") == (twice,)


def said(label: str, old: float | None, new: float | None) -> dict[str, Any]:
    return {"label": label, "old": old, **({"missing": True} if new is None else {"new": new})}


def test_first_proposals_are_found_through_events_that_were_gone_for_a_while() -> None:
    saves = [[said("turn", 1.0, None), said("stop", 3.0, 3.5)], [said("turn", None, None)], [said("turn", None, 1.25)],
             [said("turn", 2.0, None)]]  # fmt: skip
    entries = [{"who": f"P{i}", "when": "x", "from": "m", "changed": changed} for i, changed in enumerate(saves)]
    clip = Clip("t/0", "t", (Event("turn", 1.25), Event("stop", 3.5)), extra={"corrections": entries})
    assert reviewed(clip) == _Reviewed("P3, x", "m", (1.0, 3.0), (("turn", 2.0),), ("m", "m", "P3"))  # m proposed anew
    assert reviewed(POUR) is None


@pytest.mark.parametrize("history", [5, [5], [{"who": 1}], [{"who": "A", "when": "x", "from": "m", "changed": [{}]}]])
def test_a_history_of_another_shape_is_one_error(history: Any) -> None:
    with pytest.raises(TempolocError, match="lid/a b, corrections"):
        reviewed(Clip("lid/a b", "lid", LID.events, extra={"corrections": history}))


def test_what_find_wrote_is_no_manifest_and_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "found.json"
    for text in ("[\n {}\n]", "\ufeff  [1]"):
        path.write_text(text, encoding="utf-8")
        for name in ("csv", "vtt", "cosmos"):
            with pytest.raises(TempolocError, match=r"tempoloc find wrote.*tempoloc review .*-o FILE.csv") as error:
                export_dataset(path, tmp_path / "out", name)
            assert "\n" not in str(error.value)
    with pytest.raises(TempolocError, match="what tempoloc find wrote"):
        import_dataset(tmp_path / "t.csv", tmp_path / "out.jsonl", "csv", manifest=path, who="Eve")
    for name in ("found.csv", "a.VTT"):
        (tmp_path / name).write_text("x")
        with pytest.raises(TempolocError, match=r"is a table or subtitles, and no manifest: .*dataset import"):
            export_dataset(tmp_path / name, tmp_path / "out", "csv")
    path.write_text(json.dumps({"clip": "t/a", "task": "t", "events": [{"label": "x", "boundary": 1}]}))  # one clip
    assert export_dataset(path, tmp_path / "one.csv", "csv").kept == 1
