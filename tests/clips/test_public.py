"""Public recordings: the list of files, their places here, and the clips that are cut out of them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tempoloc_nb.clips.manifest import Clips, load_benchmark
from tempoloc_nb.clips.public import _check_base, fetch_benchmark, public_files
from tempoloc_nb.clips.videos import find_videos
from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.video.files import probe, read
from tests.helpers.file_server import served
from tests.helpers.public_list import COMMIT, REPOSITORY, gif, line, listed

__all__ = ["listed"]  # a fixture


def rewrite(benchmark: Clips, **changed: Any) -> None:
    """The list with its first line changed."""
    path = benchmark.root / "files.jsonl"
    first, *rest = path.read_text().splitlines()
    path.write_text("\n".join([json.dumps(json.loads(first) | changed), *rest]) + "\n")


def test_what_is_fetched_is_what_localize_needs(listed: tuple[Clips, dict[str, bytes]], tmp_path: Path) -> None:
    (benchmark, files), folder, counted = listed, tmp_path / "new" / "real", list[int]()
    with served(files) as server:
        done = fetch_benchmark(benchmark, folder, base=server.address, progress=counted.append)
        again = fetch_benchmark(benchmark, folder, base=server.address)
        assert len(server.asked) == 3
    assert (done.fetched, done.kept, done.cut, done.clips) == (3, 0, 2, 3)
    assert (again.fetched, again.kept, again.cut, again.clips) == (0, 3, 0, 3)
    assert sum(counted) == done.size == sum(map(len, files.values()))
    assert str(done).endswith(f"3 clips can be asked about: tempoloc localize --benchmark mine --video-root {folder}")
    assert set(find_videos(benchmark, folder)) == {"one/take", "two/a", "two/b"}
    assert (folder / "one" / "LICENSE").read_text() == "MIT"
    assert [p.name for p in folder.rglob(".*")] == []


def test_a_clip_is_its_span_of_the_picture_and_the_same_each_time(
    listed: tuple[Clips, dict[str, bytes]], tmp_path: Path
) -> None:
    benchmark, files = listed
    with served(files) as server:
        for name in ("first", "second"):
            fetch_benchmark(benchmark, tmp_path / name, base=server.address, families=["two"])
    info, frames = probe(tmp_path / "first/two/b.mp4"), read(tmp_path / "first/two/b.mp4")
    assert (info.n_frames, info.fps, info.width, info.height) == (7, 10.0, 32, 32)
    assert [round(float(image.mean()) / 20) for image in frames.images] == [5, 6, 7, 8, 9, 10, 11]
    for name in ("a", "b"):
        one, other = (tmp_path / part / "two" / f"{name}.mp4" for part in ("first", "second"))
        assert one.read_bytes() == other.read_bytes()
    assert not (tmp_path / "first" / "one").exists()  # another family


def test_clips_are_cut_again_when_their_picture_came_anew_or_they_are_gone(
    listed: tuple[Clips, dict[str, bytes]], tmp_path: Path
) -> None:
    benchmark, files = listed
    with served(files) as server:
        fetch_benchmark(benchmark, tmp_path, base=server.address)
        (tmp_path / "two/a.mp4").unlink()
        assert fetch_benchmark(benchmark, tmp_path, base=server.address).cut == 1
        (tmp_path / "two/grasps.gif").unlink()
        done = fetch_benchmark(benchmark, tmp_path, base=server.address)
    assert (done.fetched, done.kept, done.cut) == (1, 2, 2)


def test_a_picture_that_is_too_short_is_named(listed: tuple[Clips, dict[str, bytes]], tmp_path: Path) -> None:
    benchmark, files = listed
    path = f"/{REPOSITORY}/{COMMIT}/two/grasps.gif"
    files[path] = gif(tmp_path / "short.gif", 11)
    lines = [json.loads(text) for text in (benchmark.root / "files.jsonl").read_text().splitlines()]
    lines[2] = line("two/grasps.gif", files[path])
    (benchmark.root / "files.jsonl").write_text("".join(json.dumps(one) + "\n" for one in lines))
    with served(files) as server, pytest.raises(TempolocError, match=r"grasps\.gif ends before frame 12, where two/b"):
        fetch_benchmark(benchmark, tmp_path, base=server.address)


def test_the_first_file_that_is_wrong_ends_it_and_the_others_stay(
    listed: tuple[Clips, dict[str, bytes]], tmp_path: Path
) -> None:
    benchmark, files = listed
    del files[f"/{REPOSITORY}/{COMMIT}/two/grasps.gif"]
    with served(files) as server, pytest.raises(TempolocError, match=r"two/grasps\.gif: HTTP 404, Not Found"):
        fetch_benchmark(benchmark, tmp_path, base=server.address)
    assert sorted(p.name for p in tmp_path.glob("one/*")) == ["LICENSE", "take.mp4"]
    assert not (tmp_path / "two" / "grasps.gif").exists()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"path": "../outside.mp4"}, "leads out of its folder"),
        ({"path": "/etc/passwd"}, "leads out of its folder"),
        ({"path": "one\\take.mp4"}, "leads out of its folder"),
        ({"url": "https://elsewhere.example/take.mp4"}, "is not that of its repository, commit and source"),
        ({"sha256": "abc"}, "a SHA-256 has 64 digits"),
        ({"size": 0}, "at least one byte"),
        ({"size": "many"}, "size"),
        ({"more": 1}, "more"),
    ],
)
def test_a_wrong_line_of_the_list_is_named(
    changed: dict[str, Any], message: str, listed: tuple[Clips, dict[str, bytes]]
) -> None:
    benchmark, _ = listed
    rewrite(benchmark, **changed)
    with pytest.raises(TempolocError, match=r"files\.jsonl") as told:
        public_files(benchmark)
    assert message in str(told.value)


def test_a_family_is_chosen_and_another_is_no_family(listed: tuple[Clips, dict[str, bytes]]) -> None:
    benchmark, _ = listed
    assert [f.path for f in public_files(benchmark, ["two"])] == ["two/grasps.gif"]
    with pytest.raises(TempolocError, match=r"unknown family 'twoo': did you mean two\?"):
        public_files(benchmark, ["twoo"])


def test_a_benchmark_without_public_files_says_where_its_videos_are() -> None:
    with pytest.raises(TempolocError, match=r"sim lists no public files \(files\.jsonl\)"):
        public_files(load_benchmark("sim"))


@pytest.mark.parametrize("base", ["", "ftp://mirror", "mirror.example", "http://", "http://[::1", "http://m/?key=1"])
def test_a_base_that_is_no_address_is_refused(base: str) -> None:
    with pytest.raises(TempolocError, match="is no address to fetch from"):
        _check_base(base)


def test_a_file_is_no_folder(listed: tuple[Clips, dict[str, bytes]], tmp_path: Path) -> None:
    (tmp_path / "own").write_text("mine")
    with pytest.raises(TempolocError, match="own is a file: give a folder"):
        fetch_benchmark(listed[0], tmp_path / "own")
