"""The reviewer as a person uses it."""

from __future__ import annotations

import csv
import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import av
import pytest
from demo_files import image_file
from lerobot_folders import small_dataset
from playwright.sync_api import Locator, Page, expect
from review_folder import LABELS, STEP, TIMES, picture, write_video

from tempoloc_nb.clips.manifest import Clip, load_benchmark, write_manifest
from tempoloc_nb.clips.tasks import Event
from tempoloc_nb.formats.convert import import_dataset
from tempoloc_nb.inference.found import Found, FoundEvent
from tempoloc_nb.inference.signals import signal_at
from tempoloc_nb.reviewer.desk import Desk
from tempoloc_nb.reviewer.pages import ReviewServer, reply, script, write_page
from tempoloc_nb.reviewer.sources import open_review
from tempoloc_nb.scoring.logs import Outcome

NewPage = Callable[..., Page]
# The number that is written in a picture's greys; -1 for greys that are far from any digit's.
PICTURED = """(video, step) => { const c = document.createElement("canvas"); c.width = 96; c.height = 64;
  const g = c.getContext("2d", { willReadFrequently: true });
  g.drawImage(video, 0, 0, 96, 64);
  const digits = [24, 72].map(x => (g.getImageData(x, 32, 1, 1).data[1] - 30) / step);
  const [high, low] = digits.map(Math.round);
  return digits.some(d => Math.abs(d - Math.round(d)) > 0.2) ? -1 : 8 * high + low; }"""


def opened(page: Page, url: str) -> Page:
    page.goto(url)
    expect(page.locator(".handle").first).to_be_visible()
    from_the_start(page)
    return page


def from_the_start(page: Page) -> None:
    """Choose the first event and show the first frame: a clip opens at its doubtful event."""
    expect(page.locator(".message")).to_be_hidden()
    expect(page.locator("[inert]")).to_have_count(0)  # until then it takes no keys
    page.locator(".app").press("1")
    page.locator(".app").press("Home")


def open_clip(page: Page, name: str) -> None:
    page.locator(f'.line[title^="tidy/{name}:"]').click()
    expect(page.locator("h1")).to_have_text(f"tidy/{name}")
    from_the_start(page)


def place(page: Page) -> str:
    return page.locator(".place").inner_text()


def pictured(page: Page) -> int:
    """Which frame is in the video's picture now."""
    number: int = page.locator("video").first.evaluate(PICTURED, STEP)
    return number


def seen(page: Page, frame: int) -> None:
    """The frame is said; as soon as it is, its picture is there, and it stays."""
    expect(page.locator(".place")).to_contain_text(f"frame {frame} of")
    assert pictured(page) == frame
    expect(page.locator(".doubt")).to_be_hidden()
    page.wait_for_timeout(40)
    assert (place(page).partition(" of")[0], pictured(page)) == (f"{TIMES[frame]:.3f} s · frame {frame}", frame)


def time_of(page: Page, event: int) -> Locator:
    return page.locator(".event .time").nth(event)


def drag(page: Page, event: int, seconds: float) -> None:
    """Drag a boundary by so many seconds, in a few steps."""
    box = page.locator(f'[data-event="{event}"] circle').bounding_box()
    axis = page.locator(".ground").bounding_box()
    assert box is not None
    assert axis is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x + seconds * axis["width"] / (TIMES[-1] + 0.1), y + 5, steps=8)
    page.mouse.up()


def saved(folder: Path) -> dict[str, Clip]:
    return {c.clip: c for c in load_benchmark(folder / "reviewed.jsonl").clips}


def test_the_least_sure_clip_comes_first_and_filters_choose(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    expect(page.locator("h1")).to_have_text("tidy/c")  # it lacks an event
    expect(page.locator(".line b")).to_have_text(["c", "b", "a"])
    page.get_by_label("Missing an event").check()
    expect(page.locator(".line b")).to_have_text(["c"])
    page.get_by_label("Missing an event").uncheck()
    page.get_by_label("Find a clip").fill("tidy/b")
    expect(page.locator(".line b")).to_have_text(["b"])
    page.get_by_label("Find a clip").fill("")
    page.get_by_label("Status").select_option("done")
    expect(page.locator(".line")).to_have_count(0)
    expect(page.locator(".count")).to_have_text("0 shown · 0 of 3 reviewed")
    expect(page.locator(".empty")).to_contain_text("No clip has all of this: Reviewed.")
    page.get_by_role("button", name="Show all 3 clips").click()
    expect(page.locator(".line b")).to_have_text(["c", "b", "a"])
    expect(page.locator(".empty")).to_be_hidden()


def test_a_step_is_a_frame_of_the_file(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    seen(page, 0)
    for k in range(1, 8):
        page.keyboard.press("ArrowRight")
        seen(page, k)
    assert place(page).startswith(f"{TIMES[7]:.3f} s")
    page.keyboard.press("Shift+ArrowRight")
    seen(page, 17)
    page.keyboard.press("ArrowLeft")
    seen(page, 16)
    for _ in range(30):  # faster than the browser seeks
        page.keyboard.press("ArrowRight")
    seen(page, 46)


def test_a_file_may_begin_later_than_at_0(folder: Path, new_page: NewPage) -> None:
    write_video(folder / "late.mp4", begin=0.73)
    review = open_review(folder / "late.mp4", events=LABELS, output=folder / "l.jsonl", who="Ada")
    with ReviewServer(review) as server:
        page = new_page()
        page.goto(server.url)
        expect(page.locator(".message")).to_be_hidden()
        seen(page, 0)
        for k in (1, 2, 3, 4):
            page.keyboard.press("ArrowRight")
            seen(page, k)
        page.keyboard.press("n")
        expect(page.locator(".place")).not_to_contain_text("frame 4 of")
        page.keyboard.press("b")
        expect(page.get_by_label("Play or pause (space)")).to_have_text("▶")
        page.wait_for_timeout(200)
        seen(page, int(place(page).split("frame ")[1].split()[0]))


def around(boundary: float, rounds: list[list[float]]) -> bool:
    """Whether a round went from half a second before a boundary to half a second after it; a machine that pauses may
    overshoot in some."""
    return any(abs(times[0] - boundary + 0.5) <= 0.21 and abs(times[-1] - boundary - 0.5) <= 0.21 for times in rounds)


def test_it_plays_slowly_and_loops_around_a_boundary(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    for key, speed in (("]", 2), ("]", 4), ("]", 4), *(("[", slower) for slower in (2, 1, 0.5))):
        page.keyboard.press(key)
        assert page.locator("video").first.evaluate("v => v.playbackRate") == speed
    page.keyboard.press("1")
    seen(page, 10)
    page.keyboard.press("l")
    expect(page.get_by_label("Loop around the boundary (L)")).to_have_attribute("aria-pressed", "true")
    rounds, deadline = [[0.0]], time.monotonic() + 60
    while not around(TIMES[10], rounds[:-1]) and time.monotonic() < deadline:
        page.wait_for_timeout(60)
        now = float(place(page).split()[0])
        rounds += [[]] if now < rounds[-1][-1] else []  # it began again
        rounds[-1].append(now)
    assert around(TIMES[10], rounds[:-1]), rounds
    page.keyboard.press("l")
    assert page.locator("video").first.evaluate("v => v.paused")


def test_drag_type_mark_undo(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "a")
    assert time_of(page, 1).input_value() == f"{TIMES[25]:.3f}"
    page.keyboard.press("1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")  # this event is now; the next is chosen
    assert time_of(page, 0).input_value() == f"{TIMES[11]:.3f}"
    expect(page.locator(".event.selected")).to_contain_text(LABELS[1])
    seen(page, 25)
    drag(page, 1, 0.43)
    moved = float(time_of(page, 1).input_value())
    assert moved in TIMES  # on a frame
    assert abs(moved - TIMES[25] - 0.43) <= 0.11
    expect(page.locator(".event").nth(1)).to_contain_text("from the truth")
    seen(page, TIMES.index(moved))
    page.keyboard.press("Control+z")
    assert time_of(page, 1).input_value() == f"{TIMES[25]:.3f}"
    page.keyboard.press("Control+y")
    assert time_of(page, 1).input_value() == f"{moved:.3f}"
    time_of(page, 2).fill("0:04,61")
    time_of(page, 2).press("Enter")
    assert float(time_of(page, 2).input_value()) in TIMES
    time_of(page, 2).fill("f42")
    time_of(page, 2).press("Enter")
    assert time_of(page, 2).input_value() == f"{TIMES[42]:.3f}"
    time_of(page, 2).fill("soon")
    time_of(page, 2).press("Enter")
    assert time_of(page, 2).input_value() == f"{TIMES[42]:.3f}"
    page.locator(".app").press("2")
    page.keyboard.press("x")
    assert time_of(page, 1).input_value() == "absent"
    expect(page.locator(".handle")).to_have_count(2)
    page.locator('[data-event="2"]').focus()
    page.keyboard.press("ArrowLeft")  # a boundary by the keyboard
    assert time_of(page, 2).input_value() == f"{TIMES[41]:.3f}"
    for _ in range(20):
        page.keyboard.press("Control+z")
    assert [time_of(page, i).input_value() for i in range(3)] == [f"{TIMES[k]:.3f}" for k in (10, 25, 40)]
    expect(page.get_by_label("Undo")).to_be_disabled()


def test_the_error_is_live_and_a_wrong_order_cannot_be_saved(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "a")
    expect(page.locator(".error")).to_contain_text("model 0.00 s")
    drag(page, 2, 0.6)
    expect(page.locator(".error")).to_contain_text(re.compile(r"model 0\.[12]"))
    drag(page, 0, 2.6)
    expect(page.locator(".event").nth(1)).to_contain_text("must come after")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()


def test_what_was_saved_is_there_after_a_reload(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "b")
    drag(page, 0, 0.3)
    moved = time_of(page, 0).input_value()
    page.get_by_label(f"Reason: {LABELS[0]}").fill("the hand closes late")
    page.get_by_label("Who corrects").fill("Grace")
    page.keyboard.press("Control+s")
    expect(page.locator(".banner")).to_contain_text("Saved tidy/b")
    page.locator(".app").press("Control+z")  # a save ends nothing
    assert time_of(page, 0).input_value() == f"{TIMES[10]:.3f}"
    open_clip(page, "a")
    open_clip(page, "b")
    assert time_of(page, 0).input_value() == f"{TIMES[10]:.3f}"
    page.locator(".app").press("Control+y")
    assert time_of(page, 0).input_value() == moved
    expect(page.locator(".line.done")).to_have_count(1)
    clip = saved(folder)["tidy/b"]
    assert f"{clip.boundaries[0]:.3f}" == moved
    (entry,) = clip.extra["corrections"]
    assert (entry["who"], entry["changed"][0]["why"]) == ("Grace", "the hand closes late")
    opened(page, server.url)
    expect(page.locator(".count")).to_have_text("1 of 3 reviewed")
    open_clip(page, "b")
    assert time_of(page, 0).input_value() == moved
    expect(page.locator(".saves")).to_contain_text("the hand closes late")
    page.get_by_role("button", name="Put back").click()
    assert time_of(page, 0).input_value() == f"{TIMES[10]:.3f}"
    page.locator(".app").press("Control+z")
    assert time_of(page, 0).input_value() == moved
    page.locator(".app").press("Enter")  # nothing is changed: the next clip that is to do
    expect(page.locator("h1")).to_have_text("tidy/a")
    page.keyboard.press("Enter")  # accepted as it is
    expect(page.locator(".count")).to_have_text("2 of 3 reviewed")
    assert saved(folder)["tidy/a"].extra["corrections"][0]["changed"] == []
    open_clip(page, "c")
    page.locator(".app").press("2")
    page.locator(".app").press("x")
    expect(time_of(page, 1)).to_have_value("absent")
    page.locator(".app").press("Control+s")
    expect(page.locator(".saves")).to_contain_text("absent")
    assert saved(folder)["tidy/c"].absent == (LABELS[1],)
    opened(page, server.url)
    open_clip(page, "c")
    assert time_of(page, 1).input_value() == "absent"


def test_changes_wait_while_another_clip_is_looked_at(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "a")
    drag(page, 1, 0.5)
    moved = time_of(page, 1).input_value()
    open_clip(page, "b")
    expect(page.locator(".line.unsaved")).to_have_count(1)
    open_clip(page, "a")
    assert time_of(page, 1).input_value() == moved


def test_two_tabs_overwrite_nothing_unseen(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    one, other = opened(new_page(), server.url), opened(new_page(), server.url)
    for page in (one, other):
        open_clip(page, "a")
    drag(one, 0, 0.3)
    theirs = time_of(one, 0).input_value()
    one.keyboard.press("Control+s")
    expect(one.locator(".banner")).to_contain_text("Saved")
    drag(other, 1, 0.5)
    ours = time_of(other, 1).input_value()
    other.get_by_label("Note on this clip").fill("the cup slips")
    other.keyboard.press("Control+s")
    both = other.get_by_role("dialog")  # both versions, side by side
    expect(both.get_by_role("heading")).to_have_text(re.compile(r"Ada saved this clip on \w{3} \d+, \d{4}, \d+:\d\d"))
    rows = [row.inner_text().split("\t") for row in both.locator("tbody tr").all()]
    assert [row[1:3] for row in rows] == [
        [f"{TIMES[10]:.3f} s", f"{float(theirs):.3f} s"], [f"{float(ours):.3f} s", f"{TIMES[25]:.3f} s"],
        [f"{TIMES[40]:.3f} s"] * 2, ["the cup slips", "–"], ["no", "no"],
    ]  # fmt: skip
    assert rows[2][3] == "the same"
    assert len(saved(folder)["tidy/a"].extra["corrections"]) == 1
    both.get_by_role("button", name="Not yet").click()
    expect(time_of(other, 1)).to_have_value(ours)
    other.keyboard.press("Control+s")
    both.get_by_role("button", name="Take theirs").click()
    expect(time_of(other, 0)).to_have_value(theirs)
    expect(time_of(other, 1)).to_have_value(f"{TIMES[25]:.3f}")
    other.keyboard.press("Control+z")  # yours is not lost
    expect(time_of(other, 1)).to_have_value(ours)
    other.keyboard.press("Control+y")
    drag(one, 2, 0.3)
    one.keyboard.press("Control+s")
    expect(one.locator(".saves > li")).to_have_count(2)
    drag(other, 1, 0.5)
    other.keyboard.press("Control+s")
    other.get_by_role("button", name="Keep mine").click()
    expect(other.locator(".banner")).to_contain_text("Saved")
    clip = saved(folder)["tidy/a"]
    assert len(clip.extra["corrections"]) == 3
    assert f"{clip.boundaries[1]:.3f}" == ours


def test_a_file_that_has_gone_is_said_and_times_can_be_typed(
    server: ReviewServer, folder: Path, new_page: NewPage
) -> None:
    page = opened(new_page(), server.url)
    (folder / "a.mp4").unlink()
    page.locator('.line[title^="tidy/a:"]').click()
    expect(page.locator(".message")).to_contain_text("no such file")
    time_of(page, 0).fill("1.234")
    time_of(page, 0).press("Enter")
    page.locator(".app").press("Control+s")
    expect(page.locator(".banner")).to_contain_text("Saved")
    assert saved(folder)["tidy/a"].boundaries[0] == 1.234


def test_a_server_that_has_ended_is_said(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(quiet=False), server.url)
    page.route("**/ask", lambda route: route.abort())
    page.locator(".line").last.click()
    expect(page.locator(".banner")).to_contain_text("has ended")


@pytest.mark.parametrize("path", ["", "guess/", "../../etc/passwd", "guess/video/0"])
def test_a_wrong_token_shows_nothing(server: ReviewServer, new_page: NewPage, path: str) -> None:
    page = new_page(quiet=False)
    answer = page.goto(server.url.replace(f"{server.token}/", path))
    assert answer is not None
    assert answer.status == 403
    assert "token is missing" in page.locator("body").inner_text()


def test_no_path_leads_out(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    page = new_page(quiet=False)
    for path in ("manifest.jsonl", "..%2f..%2fmanifest.jsonl", "video/..%2fmanifest.jsonl", f"video/{folder}/a.mp4"):
        answer = page.goto(server.url + path)
        assert answer is not None
        assert answer.status in (403, 404), path


def test_what_the_browser_cannot_play_is_a_strip(server: ReviewServer, new_page: NewPage) -> None:
    page = new_page(quiet=False)
    page.route("**/video/*", lambda route: route.fulfill(status=200, content_type="video/mp4", body=b"no video"))
    page.goto(server.url)
    expect(page.locator(".message")).to_contain_text("does not play the video")
    expect(page.locator(".tile")).to_be_visible()
    page.locator(".app").press("Home")
    page.locator(".app").press("Shift+ArrowRight")
    expect(page.locator(".place")).to_contain_text("frame 10 of")
    page.keyboard.press(" ")
    expect(page.locator(".place")).not_to_contain_text("frame 10 of")


def test_an_old_codec_is_shown_as_a_copy_with_the_same_frames(folder: Path, new_page: NewPage) -> None:
    with av.open(str(folder / "old.avi"), "w") as container:
        stream = container.add_stream("mjpeg", rate=10)
        stream.width, stream.height, stream.pix_fmt = 96, 64, "yuvj420p"
        for k in range(30):
            container.mux(stream.encode(av.VideoFrame.from_ndarray(picture(k), format="rgb24")))
        container.mux(stream.encode(None))
    review = open_review(folder / "old.avi", events=LABELS, output=folder / "o.jsonl", who="Ada")
    with ReviewServer(review) as server:
        page = new_page()
        page.goto(server.url)
        expect(page.locator(".by")).to_contain_text("H.264 copy")
        expect(page.locator(".message")).to_be_hidden()
        for k in range(1, 6):
            page.locator(".app").press("ArrowRight")
            expect(page.locator(".place")).to_contain_text(f"frame {k} of 30")
            assert pictured(page) == k
        for label in LABELS:  # labelled from nothing, as in Isaac Lab's annotator
            page.keyboard.press("Shift+ArrowRight")
            page.keyboard.press("s")
            expect(page.locator(".event", has_text=label).locator(".time")).not_to_have_value("")


@contextmanager
def many(folder: Path, count: int) -> Iterator[ReviewServer]:
    """That many clips of one video."""
    events = tuple(Event(label, t) for label, t in zip(LABELS, (1.0, 2.0, 3.0), strict=True))
    clips = [Clip(f"tidy/{n:04d}", "tidy", events, "a.mp4", 10.0, duration=6.1) for n in range(count)]
    (folder / "many").mkdir()
    write_manifest(folder / "many" / "manifest.jsonl", [*clips])
    (folder / "many" / "a.mp4").write_bytes((folder / "a.mp4").read_bytes())
    text = "\n".join(f"Event {i}: <{i}.0> <{i}.9> {label}" for i, label in enumerate(LABELS, 1))
    rows = [
        {"clip": c.clip, "task": "tidy", "model": "m", "fps": 8.0, "trial": k, "text": text}
        for c in clips
        for k in (0, 1)
    ]
    (folder / "many" / "predictions.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    with ReviewServer(open_review(folder / "many", who="Ada")) as server:
        yield server


def test_a_thousand_clips_are_a_list_of_a_few_lines(folder: Path, new_page: NewPage) -> None:
    with many(folder, 1000) as server:
        page = new_page()
        opened(page, server.url)
        assert page.locator(".line").count() < 50
        page.locator(".list").evaluate("list => { list.scrollTop = list.scrollHeight; }")
        expect(page.locator(".line b").last).to_have_text("0999")
        page.locator(".line").last.click()
        expect(page.locator("h1")).to_have_text("tidy/0999")
        page.keyboard.press("Control+s")
        expect(page.locator(".count")).to_have_text("1 of 1000 reviewed")
        assert page.locator(".line").count() < 50


def test_a_widget_in_a_notebook_does_the_same(folder: Path, new_page: NewPage) -> None:
    """The kernel's side is Python's, the notebook's side is played by a page."""
    desk = Desk(open_review(folder, who="Ada"))
    page = new_page(1000)

    def kernel(message: dict[str, Any]) -> list[Any]:
        answer, buffers = reply(desk, message)
        return [answer, [list(data) for data in buffers]]

    page.expose_function("kernel", kernel)
    page.route("http://notebook/**", lambda route: route.fulfill(
        body=script() if route.request.url.endswith(".js") else "<body></body>",
        content_type="text/javascript" if route.request.url.endswith(".js") else "text/html",
    ))  # fmt: skip
    page.goto("http://notebook/")
    page.evaluate("""async () => {
      const widget = (await import("/widget.js")).default;
      let hear;
      const model = {
        on: (_, listener) => { hear = listener; },
        send: async (message) => {
          const [answer, buffers] = await window.kernel(message);
          hear(answer, buffers.map((b) => new DataView(new Uint8Array(b).buffer)));
        },
      };
      widget.render({ model, el: document.body });
    }""")
    expect(page.locator(".handle").first).to_be_visible()
    open_clip(page, "a")
    seen(page, 0)
    page.locator(".app").press("ArrowRight")
    seen(page, 1)
    drag(page, 0, 0.3)
    page.keyboard.press("Control+s")
    expect(page.locator(".banner")).to_contain_text("Saved tidy/a")
    assert saved(folder)["tidy/a"].boundaries[0] > TIMES[10]


def test_a_page_to_show_opens_from_a_disk_and_sends_a_table(folder: Path, new_page: NewPage) -> None:
    write_page(open_review(folder, who="Ada"), folder / "page")
    page = new_page(accept_downloads=True)
    opened(page, (folder / "page" / "index.html").as_uri())
    open_clip(page, "a")
    page.locator(".app").press("ArrowRight")
    expect(page.locator(".place")).to_contain_text("frame 1 of")
    drag(page, 0, 0.3)
    moved = float(time_of(page, 0).input_value())
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_hidden()
    page.get_by_label("Export and import").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Boundaries as CSV").click()
    table = folder / "boundaries.csv"
    download.value.save_as(table)
    assert len(list(csv.reader(table.open()))) == 10
    import_dataset(table, folder / "corrected.jsonl", "csv", manifest=folder / "manifest.jsonl", who="Ada")
    assert load_benchmark(folder / "corrected.jsonl").clips[0].boundaries[0] == pytest.approx(moved)


def test_tables_come_and_go_through_the_page(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    page = opened(new_page(accept_downloads=True), server.url)
    page.get_by_label("Export and import").click()
    with page.expect_download() as download:
        page.get_by_role("button", name="Boundaries as CSV").click()
    text = Path(download.value.path()).read_text()
    moved = text.replace(f"tidy/a,{LABELS[1]},{TIMES[25]},", f"tidy/a,{LABELS[1]},{TIMES[26]},")
    assert moved != text
    (folder / "moved.csv").write_text(moved)
    open_clip(page, "b")
    drag(page, 0, 0.3)
    ours = time_of(page, 0).input_value()
    page.get_by_label("Export and import").click()
    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Read CSV or WebVTT").click()
    chooser.value.set_files(folder / "moved.csv")
    expect(page.locator(".banner")).to_contain_text("3 clips read, 1 changed")
    assert saved(folder)["tidy/a"].boundaries[1] == TIMES[26]
    expect(time_of(page, 0)).to_have_value(ours)  # what was not saved yet is still there
    expect(page.locator(".line.unsaved")).to_have_count(1)


def test_a_lerobot_dataset_gets_its_annotations(tmp_path: Path, new_page: NewPage) -> None:
    pictures = [[picture(k) for k in range(40)]] * 2
    root = small_dataset(tmp_path / "cups", pictures, [["grasp"] * 15 + ["lift"] * 25] * 2)
    with ReviewServer(open_review(root, who="Ada")) as server:
        page = opened(new_page(), server.url)
        time_of(page, 0).fill("f17")
        time_of(page, 0).press("Enter")
        page.locator(".app").press("Control+s")
        expect(page.locator(".banner")).to_contain_text("Saved")
        page.get_by_label("Export and import").click()
        page.get_by_role("button", name="Write LeRobot annotations").click()
        expect(page.locator(".banner")).to_contain_text("1 episodes written")
    found = json.loads((root / "meta" / "lerobot_annotations.json").read_text())
    atoms = found["episodes"]["0"]["atoms"]
    assert [(a["style"], a["content"], a["timestamp"]) for a in atoms] == [
        ("subtask", "grasp", 0.0),
        ("subtask", "lift", 1.7),
    ]
    again = open_review(root, output=tmp_path / "new.jsonl")  # what the visualizer saved is read
    assert again.start(again.clip("cups/episode_000000"))[1] == (1.7, 4.0)
    assert again.start(again.clip("cups/episode_000001"))[1] == (1.5, 4.0)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_it_fits_a_phone(server: ReviewServer, new_page: NewPage, scheme: str) -> None:
    page = opened(new_page(390, 844, color_scheme=scheme, has_touch=True), server.url)
    assert page.evaluate("document.documentElement.scrollWidth") <= 390
    wide = (
        "box => [...box.querySelectorAll('*')].filter(e => e.getBoundingClientRect().right > 391).map(e => e.className)"
    )
    assert page.locator(".app").evaluate(wide) == []
    page.get_by_role("button", name="Clips").tap()
    expect(page.locator(".queue")).to_be_visible()
    page.locator('.line[title^="tidy/a:"]').tap()
    expect(page.locator("h1")).to_have_text("tidy/a")
    expect(page.locator(".queue")).to_be_hidden()


# A browser whose seeks land a frame early: `lands(seconds, turn)` says where the `turn`th seek to that place goes.
EARLY = """() => {
  const own = Object.getOwnPropertyDescriptor(HTMLMediaElement.prototype, "currentTime");
  const lands = %s;
  window.seeks = [];
  Object.defineProperty(HTMLMediaElement.prototype, "currentTime", {
    get() { return own.get.call(this); },
    set(seconds) { window.seeks.push(seconds); own.set.call(this, lands(seconds)); },
  });
}"""
UNTIL_LATE = "t => t >= 0.3 && t < 0.37 ? 0.15 : t"  # frame 3 (0.3 to 0.4 s) is met in the last part of its time alone
FROM_ELSEWHERE = """t => {
  const inside = t >= 0.3 && t < 0.4, before = window.seeks.at(-2) ?? 0;
  return inside && before < 0.5 ? 0.15 : t;
}"""
NEVER = "t => t >= 0.3 && t < 0.4 ? 0.15 : t"


def early(new_page: NewPage, url: str, lands: str) -> Page:
    page = new_page()
    page.add_init_script(f"({EARLY % lands})()")
    return opened(page, url)


@pytest.mark.parametrize("lands", [UNTIL_LATE, FROM_ELSEWHERE])
def test_a_browser_that_shows_the_frame_before_is_sent_again(
    server: ReviewServer, new_page: NewPage, lands: str
) -> None:
    page = early(new_page, server.url, lands)
    seen(page, 0)
    page.evaluate(
        "window.said = []; const p = document.querySelector('#reviewer').shadowRoot.querySelector('.place');"
        "new MutationObserver(() => window.said.push(p.textContent)).observe(p, { childList: true })"
    )
    seen(page, 0)
    for k in range(1, 6):
        page.keyboard.press("ArrowRight")
        seen(page, k)
    assert [t for t in page.evaluate("window.said") if "of" in t] == [
        f"{TIMES[k]:.3f} s · frame {k} of {len(TIMES)}" for k in range(1, 6)
    ]
    page.keyboard.press("ArrowLeft")
    page.keyboard.press("ArrowLeft")
    seen(page, 3)
    page.keyboard.press("s")
    assert time_of(page, 0).input_value() == f"{TIMES[3]:.3f}"


def test_a_browser_that_cannot_show_a_frame_says_so(server: ReviewServer, new_page: NewPage) -> None:
    page = early(new_page, server.url, NEVER)
    for k in (1, 2):
        page.keyboard.press("ArrowRight")
        seen(page, k)
    page.keyboard.press("ArrowRight")
    expect(page.locator(".doubt")).to_have_text(
        "The picture is another frame: frame 3 was asked for, and this browser shows frame 2."
    )
    expect(page.locator(".place")).to_have_text(f"{TIMES[2]:.3f} s · frame 2 of {len(TIMES)}, not 3")
    assert pictured(page) == 2
    page.keyboard.press("s")  # what is seen is marked
    assert time_of(page, 0).input_value() == f"{TIMES[2]:.3f}"
    page.keyboard.press("1")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")  # one gets past it
    seen(page, 4)
    page.keyboard.press("ArrowLeft")
    expect(page.locator(".place")).to_contain_text("not 3")


def test_a_browser_that_does_not_tell_its_frames_says_no_number_for_certain(
    server: ReviewServer, new_page: NewPage
) -> None:
    page = new_page()
    page.add_init_script("delete HTMLVideoElement.prototype.requestVideoFrameCallback")
    opened(page, server.url)
    expect(page.locator(".doubt")).to_contain_text("does not say which frame it shows")
    for k in (1, 2, 3, 4):
        page.keyboard.press("ArrowRight")
        expect(page.locator(".place")).to_have_text(f"{TIMES[k]:.3f} s · about frame {k} of {len(TIMES)}")
    page.keyboard.press(" ")
    expect(page.locator(".place")).not_to_contain_text("frame 4 of")
    page.keyboard.press(" ")
    expect(page.get_by_label("Play or pause (space)")).to_have_text("▶")
    page.keyboard.press("Shift+ArrowRight")
    expect(page.locator(".place")).to_contain_text("about frame")


def test_keys_wait_until_the_clip_is_shown(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "c")
    held: list[Any] = []

    def hold(route: Any) -> None:
        if json.loads(route.request.post_data)["op"] in ("clip", "save"):
            held.append(route)
        else:
            route.continue_()

    def until(count: int) -> None:
        deadline = time.monotonic() + 60
        while len(held) < count and time.monotonic() < deadline:
            page.wait_for_timeout(20)
        assert len(held) == count

    def type_all() -> None:
        for key in ("ArrowRight", "s", "2", "x", "Control+z", "Control+s", "Enter", "l"):
            page.keyboard.press(key)

    page.route("**/ask", hold)
    asked = "fetch('ask', {method: 'POST', headers: {'Content-Type': 'application/json'}, body: '{\"op\": \"queue\"}'})"
    page.evaluate(asked)  # a busy browser lets one more request through
    page.keyboard.press("Enter")  # accepted: a save, then the next clip
    until(1)
    type_all()
    page.locator(".event .tools button").first.click(force=True)
    held[0].continue_()
    until(2)
    expect(page.locator("h1")).to_have_text("tidy/c")
    type_all()
    held[1].continue_()
    expect(page.locator("h1")).to_have_text("tidy/b")
    page.wait_for_timeout(100)
    assert len(held) == 2
    page.unroute("**/ask")
    expect(page.locator(".unsaved")).to_have_count(0)
    clips = saved(folder)
    assert clips["tidy/c"].boundaries == (TIMES[10], TIMES[25], TIMES[40])
    assert [len(c.extra.get("corrections", ())) for c in clips.values()] == [0, 0, 1]
    expect(page.locator(".message")).to_be_hidden()
    seen(page, 10)  # its doubtful event
    page.keyboard.press("ArrowRight")  # and now they count
    seen(page, 11)


def test_a_clip_that_does_not_come_leaves_the_one_that_is_shown(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(quiet=False), server.url)
    open_clip(page, "a")
    page.route("**/ask", lambda route: route.abort())
    page.keyboard.press("ArrowDown")
    page.locator('.line[title^="tidy/b:"]').click()
    expect(page.locator(".banner")).to_contain_text("has ended")
    page.unroute("**/ask")
    expect(page.locator('.line[aria-selected="true"] b')).to_have_text("a")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("s")
    assert time_of(page, 0).input_value() == f"{TIMES[1]:.3f}"


@pytest.mark.parametrize("place", ["page", "cell"])
def test_a_click_gives_the_keyboard_back(server: ReviewServer, new_page: NewPage, place: str) -> None:
    page = new_page()
    if place == "cell":  # as in a notebook, the reviewer hears its own keys alone
        page.route("**/page.js", lambda route: route.fulfill(
            content_type="text/javascript", body='import { mount, http } from "./reviewer.js";'
            'mount(document.getElementById("reviewer"), http("."), "cell");'))  # fmt: skip
    opened(page, server.url)
    open_clip(page, "a")
    named = page.get_by_label
    clicked = [
        named("One frame on (→)"), named("One frame back (←)"), named("Play or pause (space)"), named("Zoom in"),
        named("Missing an event"), page.get_by_text("Missing an event", exact=True), named("Missing an event"),
        page.locator(".list"),
        page.locator(".answers > summary"), page.locator(".answers > summary"), page.locator(".event").nth(1),
        named(f"It is not in the video (X): {LABELS[1]}"), named("Undo"), named("Redo"), named("Undo"),
        page.locator("h1"), page.locator("video").first, named("Export and import"), named("Export and import"),
    ]  # fmt: skip
    for number, target in enumerate(clicked):
        target.click()
        if target is clicked[2]:
            page.keyboard.press("b")
        page.keyboard.press("2")
        seen(page, 25)
        page.keyboard.press("ArrowRight")
        seen(page, 26)
        page.keyboard.press(" ")
        expect(page.get_by_label("Play or pause (space)"), str(number)).to_have_text("❚❚")
        page.keyboard.press(" ")
        expect(page.get_by_label("Play or pause (space)")).to_have_text("▶")
    page.get_by_role("button", name="Keys").click()
    page.get_by_role("button", name="Close", exact=True).last.click()
    page.get_by_label("Status").click()
    page.keyboard.press("Escape")
    page.get_by_label("Find a clip").fill("tidy")
    page.get_by_label("Find a clip").press("Enter")
    for at, event in ((10, "1"), (40, "3")):
        page.keyboard.press(event)
        seen(page, at)
    time_of(page, 2).fill("f42")
    time_of(page, 2).press("Control+s")  # what was typed is saved
    expect(page.locator(".banner")).to_contain_text("Saved tidy/a")
    expect(page.locator(".saves")).to_contain_text(f"{TIMES[42]:.2f} s")
    page.keyboard.press("1")
    seen(page, 10)


def test_a_key_that_is_held_down_saves_one_clip(server: ReviewServer, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    for _ in range(5):  # without a release, as a keyboard repeats
        page.keyboard.down("Enter")
        page.wait_for_timeout(100)
    page.keyboard.up("Enter")
    expect(page.locator(".count")).to_have_text(re.compile("[01] of 3 reviewed"))


def two_events(folder: Path) -> Path:
    """The clips with their first two events, without a truth; the model is off by two and by three frames."""
    events = tuple(map(Event, LABELS[:2]))
    clips = [replace(c, events=events) for c in load_benchmark(folder).clips]
    write_manifest(folder / "manifest.jsonl", clips)
    text = "".join(f"Event {i}: <{TIMES[k] + 0.01:.2f}> <5.00> {LABELS[i - 1]}\n" for i, k in ((1, 8), (2, 22)))
    rows = [{"clip": c.clip, "task": "tidy", "model": "m", "fps": 8.0, "trial": 0, "text": text} for c in clips]
    (folder / "predictions.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def typed(page: Page, *keys: str) -> int:
    """How many keys were pressed; each as soon as the reviewer takes one."""
    for key in keys:
        expect(page.locator("[inert]")).to_have_count(0)
        page.keyboard.press(key)
    return len(keys)


def test_a_clip_is_corrected_in_seven_keys_and_accepted_in_two(folder: Path, new_page: NewPage) -> None:
    with ReviewServer(open_review(two_events(folder), who="Ada")) as server:
        page = new_page()
        page.goto(server.url)
        seen(page, 8)  # the clip opens at an event
        assert typed(page, ".", ".", "s", ".", ".", ".", "s") <= 7
        expect(page.locator("h1")).to_have_text("tidy/b")
        assert saved(folder)["tidy/a"].boundaries == (TIMES[10], TIMES[25])
        seen(page, 8)
        assert typed(page, "s") == 1
        seen(page, 22)  # both were looked at
        assert typed(page, "s") == 1
        expect(page.locator("h1")).to_have_text("tidy/c")
        clip = saved(folder)["tidy/b"]
        assert clip.boundaries == pytest.approx((TIMES[8] + 0.01, TIMES[22] + 0.01))  # between two frames, as proposed
        typed(page, "Enter")
        expect(page.locator(".banner")).to_contain_text("Nothing is left to do in this list")
        expect(page.locator(".count")).to_have_text("3 of 3 reviewed")


def test_a_clip_opens_at_its_doubtful_event_and_s_visits_those_below_a_confidence(
    server: ReviewServer, folder: Path, new_page: NewPage
) -> None:
    page = new_page()
    page.goto(server.url)
    seen(page, 40)  # of c, the model lacks it
    page.get_by_label("Agreement").select_option("Below 90 %")
    expect(page.locator(".line b")).to_have_text(["c", "b"])
    page.locator(".app").press("s")  # the only event in doubt
    expect(page.locator("h1")).to_have_text("tidy/b")
    seen(page, 10)
    page.keyboard.press(",")
    seen(page, 9)
    page.keyboard.press(">")
    seen(page, 19)
    page.keyboard.press("s")
    expect(page.locator(".banner")).to_contain_text("Nothing is left to do")
    assert saved(folder)["tidy/b"].boundaries[0] == TIMES[19]
    page.keyboard.press("x")
    page.keyboard.press("s")  # an event that is said to be absent stays so
    expect(page.locator(".count")).to_contain_text("2 of 3 reviewed")  # as before: the save may still be under way
    for _ in range(50):
        if saved(folder)["tidy/b"].absent:
            break
        page.wait_for_timeout(100)
    assert saved(folder)["tidy/b"].absent == LABELS[:1]
    open_clip(page, "b")
    seen(page, 0)
    page.keyboard.press(">")
    seen(page, 10)
    page.keyboard.press("s")  # but where a person went to its frame, it is there
    for _ in range(50):
        if not saved(folder)["tidy/b"].absent:
            break
        page.wait_for_timeout(100)
    assert saved(folder)["tidy/b"].boundaries[0] == TIMES[10]


def test_undo_goes_back_through_the_clips(server: ReviewServer, folder: Path, new_page: NewPage) -> None:
    page = opened(new_page(), server.url)
    typed(page, "2", ".", "Enter", ".")
    expect(page.locator("h1")).to_have_text("tidy/b")
    typed(page, "Control+z", "Control+z")  # here, and the way to here
    expect(page.locator("h1")).to_have_text("tidy/c")
    expect(time_of(page, 1)).to_have_value(f"{TIMES[26]:.3f}")
    typed(page, "Control+z")
    expect(time_of(page, 1)).to_have_value(f"{TIMES[25]:.3f}")
    expect(page.locator(".line.unsaved b")).to_have_text("c")  # the file has what was saved, until it is saved again
    assert saved(folder)["tidy/c"].boundaries[1] == TIMES[26]
    typed(page, "Control+y", "Control+y", "Control+y")
    expect(page.locator("h1")).to_have_text("tidy/b")
    expect(time_of(page, 0)).to_have_value(f"{TIMES[11]:.3f}")


def test_a_clip_is_skipped_with_a_note_and_taken_back_in(
    server: ReviewServer, folder: Path, new_page: NewPage
) -> None:
    page = opened(new_page(), server.url)
    page.get_by_label("Note on this clip").fill("the hand hides the cup")
    page.locator(".app").press("k")
    expect(page.locator("h1")).to_have_text("tidy/b")
    expect(page.locator(".count")).to_have_text("0 of 3 reviewed · 1 skipped")
    (remark,) = saved(folder)["tidy/c"].extra["review_remarks"]
    assert (remark["who"], remark["note"], remark["skip"]) == ("Ada", "the hand hides the cup", True)
    page.get_by_label("Status").select_option("Skipped")
    expect(page.locator(".line b")).to_have_text(["c"])
    open_clip(page, "c")
    expect(page.get_by_label("Note on this clip")).to_have_value("the hand hides the cup")
    expect(page.locator(".saves")).to_contain_text("skipped: the hand hides the cup")
    typed(page, "k")
    expect(page.locator(".count")).to_have_text("1 shown · 0 of 3 reviewed")  # it is to be reviewed again
    clip = saved(folder)["tidy/c"]
    assert clip.extra["review_remarks"][1]["skip"] is False
    assert "corrections" not in clip.extra


def test_a_clip_is_marked_from_nothing_while_it_plays_and_skipped_half_way(folder: Path, new_page: NewPage) -> None:
    bare = [replace(c, events=tuple(map(Event, LABELS))) for c in load_benchmark(folder).clips]
    write_manifest(folder / "manifest.jsonl", bare)
    (folder / "predictions.jsonl").unlink()
    with ReviewServer(open_review(folder, who="Ada")) as server:
        page = new_page()
        page.goto(server.url)
        seen(page, 0)
        typed(page, "Enter")
        expect(page.locator(".banner")).to_contain_text(f"Not saved: {LABELS[0]}: not set")
        typed(page, "n")
        for k in (0, 1, 2):
            page.wait_for_timeout(300)
            page.keyboard.press("s")
            if k < 2:
                expect(page.get_by_label("Play or pause (space)")).to_have_text("❚❚")  # it plays on
        expect(page.locator("h1")).to_have_text("tidy/b")
        first, second, third = saved(folder)["tidy/a"].boundaries
        assert TIMES[0] < first < second < third
        seen(page, 0)
        typed(page, "Shift+ArrowRight", "s", "k")
        expect(page.locator(".banner")).to_contain_text("Skipped tidy/b. Its marks are not complete")
        expect(page.locator(".banner")).to_be_visible()
        expect(page.locator("h1")).to_have_text("tidy/c")
        typed(page, "Control+z")
        expect(page.locator("h1")).to_have_text("tidy/b")
        expect(time_of(page, 0)).to_have_value(f"{TIMES[10]:.3f}")


def test_a_boundary_goes_to_the_grippers_edge(folder: Path, new_page: NewPage) -> None:
    review = open_review(folder, who="Ada")
    review.signals = {"tidy/a": signal_at([1.0] * 13 + [0.0] * 37, 10)}  # closed at 1.3 s
    with ReviewServer(review) as server:
        page = opened(new_page(), server.url)
        open_clip(page, "a")
        expect(page.locator(".edge")).to_have_count(1)
        near = f"{min(TIMES, key=lambda t: abs(t - 1.3)):.3f}"
        page.keyboard.press("g")
        expect(time_of(page, 0)).to_have_value(near)
        page.keyboard.press("Control+z")
        axis = page.locator(".ground").bounding_box()
        assert axis is not None
        two_pixels = 2 * (TIMES[-1] + 0.1) / axis["width"]
        drag(page, 0, 1.3 - TIMES[10] + two_pixels)  # caught
        expect(time_of(page, 0)).to_have_value(near)
        open_clip(page, "b")
        page.keyboard.press("g")
        expect(page.locator(".banner")).to_contain_text("no edge of a gripper")


def beside(page: Page) -> tuple[int, int]:
    """Which frame each of two cameras shows: of the one on the hand, pictures are negatives."""
    second = PICTURED.replace("/ step)", "/ -step)").replace("[1] - 30", "[1] - 225")
    return pictured(page), page.locator("video.second").evaluate(second, STEP)


def test_a_second_camera_keeps_step_with_the_first(tmp_path: Path, new_page: NewPage) -> None:
    file = image_file(tmp_path / "demos.hdf5", [[picture(k) for k in range(40)]] * 2)
    review = open_review(file, events=LABELS, output=tmp_path / "r.jsonl", who="Ada")
    with ReviewServer(review) as server:
        page = new_page()
        page.goto(server.url)
        expect(page.locator(".place")).to_contain_text("frame 0 of")
        expect(page.locator("video.second")).to_be_hidden()
        typed(page, "v")
        expect(page.locator("video.second")).to_be_visible()
        expect(page.get_by_label("Second camera")).to_have_value("robot0_eye_in_hand_image")
        for key, frame in (("Shift+ArrowRight", 10), ("ArrowRight", 11), ("ArrowLeft", 10), ("End", 39)):
            typed(page, key)
            expect(page.locator(".place")).to_contain_text(f"frame {frame} of")
            for _ in range(50):
                if beside(page) == (frame, frame):
                    break
                page.wait_for_timeout(40)
            assert beside(page) == (frame, frame)
        typed(page, "Home", "n")
        page.wait_for_timeout(1000)
        first, second = beside(page)
        assert first > 5
        assert abs(first - second) <= 4
        typed(page, "b", "ArrowDown")
        expect(page.locator("h1")).to_have_text("demos/demo_1")
        expect(page.locator("video.second")).to_be_visible()  # it stays chosen
        typed(page, "v")
        expect(page.locator("video.second")).to_be_hidden()


def own_of(page: Page, event: int) -> Locator:
    return page.locator(".event .own").nth(event)


def test_a_span_starts_on_its_own_by_keys_by_hand_and_by_the_gripper(folder: Path, new_page: NewPage) -> None:
    review = open_review(folder, who="Ada")
    review.signals = {"tidy/a": signal_at([1.0] * 20 + [0.0] * 40, 10)}  # closed at 2 s
    with ReviewServer(review) as server:
        page = opened(new_page(), server.url)
        open_clip(page, "a")
        typed(page, "2", "e")  # within the subtask, of which only the end is shown
        seen(page, 18)
        expect(page.locator(".event").nth(1)).to_contain_text(f"starts at {TIMES[18]:.2f} s")
        typed(page, ",")
        expect(own_of(page, 1)).to_have_value(f"{TIMES[17]:.3f}")
        typed(page, "<")  # beyond the event before
        expect(page.locator(".event").nth(1)).to_contain_text("reaches beyond what is before it")
        expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
        typed(page, "g")
        near = min(TIMES, key=lambda t: abs(t - 2.0))
        expect(own_of(page, 1)).to_have_value(f"{near:.3f}")
        square = page.locator('[data-event="1"][data-part="own"] .square').bounding_box()
        axis = page.locator(".ground").bounding_box()
        assert square is not None
        assert axis is not None
        x, y = square["x"] + 4, square["y"] + 4
        page.mouse.move(x, y)
        page.mouse.down()
        page.mouse.move(x + 0.3 * axis["width"] / (TIMES[-1] + 0.1), y, steps=6)
        page.mouse.up()
        expect(own_of(page, 1)).not_to_have_value(f"{near:.3f}")
        typed(page, "Control+z")
        expect(own_of(page, 1)).to_have_value(f"{near:.3f}")
        own_of(page, 1).fill("f15")
        own_of(page, 1).press("Enter")
        seen(page, 15)
        typed(page, "s")  # back to the boundary
        seen(page, 25)
        typed(page, "Control+s")
        expect(page.locator(".saves")).to_contain_text(f"starts at its neighbour → {TIMES[15]:.2f} s")
        event = saved(folder)["tidy/a"].events[1]
        assert (event.start, event.end, event.boundary) == (TIMES[15], TIMES[25], TIMES[25])
        opened(page, server.url)
        open_clip(page, "a")
        expect(own_of(page, 1)).to_have_value(f"{TIMES[15]:.3f}")
        expect(page.locator(".line.unsaved")).to_have_count(0)
        typed(page, "2", "e")
        seen(page, 15)
        typed(page, "Delete")  # without a gap again
        expect(own_of(page, 1)).to_have_value("")
        expect(page.locator(".event")).to_have_count(3)
        typed(page, "Control+s")
        expect(page.locator(".saves > li")).to_have_count(2)
        assert saved(folder)["tidy/a"].events[1].start == TIMES[10]
        expect(own_of(page, 1)).to_have_value("")


def named(page: Page, name: str) -> None:
    """Answer the question for an event's name."""
    field = page.get_by_label("Name of the event")
    expect(field).to_be_focused()
    field.fill(name)
    field.press("Enter")
    expect(field).to_have_count(0)


def listed(page: Page, *events: tuple[str, int]) -> None:
    """The events and their frames, as the list has them."""
    expect(page.locator(".event .what")).to_have_text([label for label, _ in events])
    assert [time_of(page, i).input_value() for i in range(len(events))] == [f"{TIMES[k]:.3f}" for _, k in events]


FIRST = tuple(zip(LABELS, (10, 25, 40), strict=True))


def test_events_are_added_renamed_split_and_deleted_and_undo_brings_them_back(
    server: ReviewServer, folder: Path, new_page: NewPage
) -> None:
    page = opened(new_page(), server.url)
    open_clip(page, "a")
    typed(page, "Shift+ArrowRight", *["ArrowRight"] * 7)
    seen(page, 17)
    typed(page, "a")
    expect(page.locator(".event").nth(1)).to_contain_text("name it")
    expect(page.get_by_role("button", name="Save", exact=True)).to_be_disabled()
    named(page, LABELS[1])
    expect(page.locator(".event").nth(1)).to_contain_text("another event has this name")
    typed(page, "r")
    named(page, " wipe  it ")
    listed(page, FIRST[0], ("wipe it", 17), *FIRST[1:])
    typed(page, "3", "r")
    named(page, "lift the cup")
    expect(page.locator(".event").nth(2)).to_contain_text("was lift it")
    typed(page, "4", "c")  # the frame that is shown ends the subtask: its middle is taken
    page.get_by_label("Name of the event").press("Enter")
    listed(page, FIRST[0], ("wipe it", 17), ("lift the cup", 25), ("put it down, first part", 33), FIRST[2])
    expect(page.locator(".handle")).to_have_count(5)
    typed(page, "1", "Delete")
    listed(page, ("wipe it", 17), ("lift the cup", 25), ("put it down, first part", 33), FIRST[2])
    typed(page, "Control+z")
    expect(page.locator(".event")).to_have_count(5)
    typed(page, "Control+y")
    page.get_by_label(f"delete: Take it out of the list (Delete): {LABELS[0]}").wait_for(state="detached")
    typed(page, "Control+s")
    expect(page.locator(".saves > li")).to_have_count(1)
    clip = saved(folder)["tidy/a"]
    assert clip.labels == ("wipe it", "lift the cup", "put it down, first part", "put it down")
    assert clip.boundaries == tuple(TIMES[k] for k in (17, 25, 33, 40))
    for text in ("wipe it: added at 1.65 s", "lift it, now lift the cup", "grasp the cup: taken out, was at"):
        expect(page.locator(".saves")).to_contain_text(text)
    expect(page.locator(".event").nth(1)).to_contain_text("agreement 100 %")  # of what the model was asked
    expect(page.locator(".line.unsaved")).to_have_count(0)
    typed(page, "Control+z", "Control+z")  # a save ends nothing: back to before the split
    listed(page, FIRST[0], ("wipe it", 17), ("lift the cup", 25), FIRST[2])
    typed(page, "2", "Backspace", "2", "r")
    named(page, LABELS[1])
    typed(page, "Control+s")
    expect(page.locator(".saves > li")).to_have_count(2)
    assert saved(folder)["tidy/a"].labels == LABELS
    opened(page, server.url)
    open_clip(page, "a")
    listed(page, *FIRST)
    page.get_by_role("button", name="Put back").last.click()  # what the first save changed
    expect(page.locator(".event .what")).to_have_text(["grasp the cup", "lift it", "put it down"])


def test_a_clip_without_events_is_listed_by_hand(folder: Path, new_page: NewPage) -> None:
    log = Found(folder / "a.mp4", (), "m", 6.1, 4.0, ("nothing happens",), gaps=((1.0, 2.0),))
    with ReviewServer(open_review(log, output=folder / "listed.jsonl", who="Ada")) as server:
        page = new_page()
        page.goto(server.url)
        expect(page.locator(".log")).to_have_text("It says nothing for certain from 1.00 s to 2.00 s.")
        seen(page, 0)
        for key in ("Enter", "s"):
            typed(page, key)
            expect(page.locator(".banner")).to_contain_text("No event is listed: A adds one")
        typed(page, "x", "g", ",", "r", "c", "Delete")  # nothing to do
        for name in ("push", "pull"):
            typed(page, "Shift+ArrowRight", "a")
            named(page, name)
        listed(page, ("push", 10), ("pull", 20))
        typed(page, "Delete", "Delete")
        expect(page.locator(".banner")).to_contain_text("A clip keeps one event")
        typed(page, "Control+z", "Control+s")
        expect(page.locator(".saves > li")).to_have_count(1)
        (clip,) = load_benchmark(folder / "listed.jsonl").clips
        assert (clip.labels, clip.boundaries) == (("push", "pull"), (TIMES[10], TIMES[20]))


def test_a_log_shows_its_outcomes_and_what_failed(folder: Path, new_page: NewPage) -> None:
    outcomes: tuple[tuple[int, Outcome], ...] = ((5, "missed"), (10, "succeeded"), (25, "unknown"))
    events = tuple(
        FoundEvent("grasping", TIMES[k], "ok", 0.9, 0.1, outcome, number)
        for number, (k, outcome) in enumerate(outcomes, 1)
    )
    log = Found(folder / "a.mp4", events, "m", 6.1, 4.0, ("a log",))
    with ReviewServer(open_review(log, output=folder / "listed.jsonl", who="Ada")) as server:
        page = new_page()
        page.goto(server.url)
        expect(page.locator(".event .what")).to_have_text(["grasping", "grasping for the second time"])
        expect(page.locator(".event").first).to_contain_text("agreement 90 % · succeeded")
        expect(page.locator(".log")).to_contain_text(f"attempts that failed: grasping, missed at {TIMES[5]:.2f} s.")
        expect(page.locator(".failed")).to_have_count(1)


@pytest.mark.parametrize("width", [1440, 390])
def test_of_many_events_the_chosen_one_is_in_sight(folder: Path, new_page: NewPage, width: int) -> None:
    events = tuple(FoundEvent(f"event {k}", TIMES[2 * k], "ok", 0.9 - k / 100, 0.1) for k in range(1, 25))
    log = Found(folder / "a.mp4", events, "m", 6.1, 4.0, ("a log",))
    with ReviewServer(open_review(log, output=folder / "listed.jsonl", who="Ada")) as server:
        page = new_page(width, 700)
        page.goto(server.url)
        chosen = page.locator(".event.selected")
        expect(chosen.locator(".what")).to_have_text("event 24")  # the least sure
        if width > 1000:  # on a phone the page would scroll away from the video
            expect(chosen).to_be_in_viewport(ratio=1)
            typed(page, "1")
            expect(chosen.locator(".what")).to_have_text("event 1")
            expect(chosen).to_be_in_viewport(ratio=1)
        ends = page.locator(".axis").evaluate(
            "s => [s, ...s.querySelectorAll('text.tick')].map(e => e.getBoundingClientRect().right)"
        )
        assert max(ends[1:]) <= ends[0]
        typed(page, "?")
        expect(page.get_by_role("heading", name="Keys")).to_be_in_viewport(ratio=1)


def test_another_list_of_events_is_a_conflict_that_shows_both(
    server: ReviewServer, folder: Path, new_page: NewPage
) -> None:
    one, other = opened(new_page(), server.url), opened(new_page(), server.url)
    for page in (one, other):
        open_clip(page, "a")
    typed(one, "Shift+ArrowRight", "ArrowRight", "a")
    named(one, "wipe")
    typed(one, "1", "Delete", "Control+s")
    expect(one.locator(".saves > li")).to_have_count(1)
    typed(other, "1", "r")
    named(other, "take the cup")
    typed(other, "Control+s")
    both = other.get_by_role("dialog")
    expect(both.locator("tbody tr")).to_have_count(6)
    rows = [row.inner_text().split("\t")[:3] for row in both.locator("tbody tr").all()]
    assert rows[0] == ["take the cup", f"{TIMES[10]:.3f} s", "no such event"]
    assert rows[3] == ["wipe", "no such event", f"{TIMES[11]:.3f} s"]
    both.get_by_role("button", name="Keep mine").click()
    expect(other.locator(".banner")).to_contain_text("Saved")
    clip = saved(folder)["tidy/a"]
    assert clip.labels == ("take the cup", *LABELS[1:])
    assert len(clip.extra["corrections"]) == 2


def test_a_page_to_show_keeps_its_list(folder: Path, new_page: NewPage) -> None:
    write_page(open_review(folder, who="Ada"), folder / "page")
    page = opened(new_page(), (folder / "page" / "index.html").as_uri())
    for key in ("a", "r", "c", "Delete"):
        page.locator(".app").press(key)
        expect(page.locator(".banner")).to_contain_text("keeps the list of events as it is")
        page.get_by_role("button", name="Close", exact=True).first.click()
    expect(page.locator(".event")).to_have_count(3)


# The controls that have no name, and the texts whose contrast with what is behind them is less than 4.5.
FAULTS = """app => {
  const light = (c) => c.map((v) => v / 255).map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const rgb = (text) => text.match(/[\\d.]+/g).map(Number);
  const behind = (e) => { for (let at = e; at; at = at.parentElement) {
    const c = rgb(getComputedStyle(at).backgroundColor); if (c.length < 4 || c[3] > 0) return c.slice(0, 3); } };
  const seen = [...app.querySelectorAll("*")].filter((e) => e.checkVisibility({ visibilityProperty: true }));
  const named = (e) => [e.getAttribute("aria-label"), e.textContent, e.labels?.[0]?.textContent].some((t) => t?.trim());
  const controls = "button, input, select, summary, dialog, [role], [tabindex='0']";
  const nameless = seen.filter((e) => e.matches(controls) && !named(e));
  const faint = seen.filter((e) => !(e instanceof SVGElement) && !e.closest(":disabled, .stage")
    && [...e.childNodes].some((n) => n.nodeType === 3 && n.data.trim())).filter((e) => {
    const [a, b] = [light(rgb(getComputedStyle(e).color).slice(0, 3)), light(behind(e))].sort((x, y) => y - x);
    return (a + 0.05) / (b + 0.05) < 4.5; });
  return [...nameless, ...faint].map((e) => e.outerHTML.slice(0, 120));
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_controls_have_names_and_texts_contrast(server: ReviewServer, new_page: NewPage, scheme: str) -> None:
    page = opened(new_page(color_scheme=scheme), server.url)
    typed(page, "2", ".", ".")
    assert page.locator(".app").evaluate(FAULTS) == []
    typed(page, "x", "k")
    expect(page.locator(".line.skipped")).to_have_count(1)
    typed(page, "?")
    assert page.locator(".app").evaluate(FAULTS) == []
    page.keyboard.press("Escape")
    expect(page.locator(".app")).to_be_focused()
    page.get_by_label("Status").select_option("done")
    assert page.locator(".app").evaluate(FAULTS) == []
    page.get_by_role("button", name="Show all").press("Enter")  # without a mouse, too
    chosen = page.get_by_role("listbox", name="Clips").get_attribute("aria-activedescendant")
    expect(page.locator(f"#{chosen} b")).to_have_text("b")
