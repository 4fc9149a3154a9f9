"""Pictures in HDF5 files: each kind of number in its right range or refused, pictures as files, all demonstrations."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image as Picture

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.formats.gripper import _hand, opening_of
from tempoloc_nb.formats.hdf5_frames import DemoFrames, read_demo_file
from tempoloc_nb.formats.recordings import find_recordings
from tempoloc_nb.video.files import probe

h5py = pytest.importorskip("h5py")
STEPS = 12
RAMP = np.linspace(40, 200, 20 * 24).astype(np.uint8).reshape(20, 24)
PICTURES = np.stack([np.stack([np.roll(RAMP, 3 * k), RAMP // 2, RAMP], -1) for k in range(STEPS)])  # (T, 20, 24, 3)


def write(path: Path, *cameras: Any, steps: int = STEPS, **how: Any) -> Path:
    """A file with a demonstration for each of these arrays, which are what its camera saw."""
    with h5py.File(path, "w") as file:
        file.create_group("data").attrs["env_args"] = json.dumps({"env_kwargs": {"control_freq": 20}})
        for i, images in enumerate(cameras):
            file[f"data/demo_{i}/actions"] = np.zeros((steps, 7))
            file.create_dataset(f"data/demo_{i}/obs/front_image", data=images, **how)
    return path


def shown(path: Path, demo: str = "demo_0") -> Any:
    found = read_demo_file(path)
    return np.stack(list(DemoFrames(path, demo, found.cameras[0], found.rate, False).images(range(STEPS))))


@pytest.mark.parametrize(
    ("images", "near"),
    [
        (PICTURES.astype(np.float32), 0),
        (PICTURES / 255, 0),
        ((PICTURES / 255).astype(np.float16), 1),
        (PICTURES / 127.5 - 1, 0),
        (PICTURES.astype(np.uint16), 0),
        (PICTURES.astype(np.int64), 0),
        (PICTURES.astype(np.uint16) * 257, 0),
        (PICTURES.transpose(0, 3, 1, 2), 0),
        ((PICTURES / 255).transpose(0, 3, 1, 2), 0),
        (np.concatenate([PICTURES, PICTURES[..., :1]], -1), 0),
    ],
    ids=["float 0-255", "float 0-1", "half", "float -1-1", "uint16", "int64", "16 bits", "CHW", "CHW 0-1", "RGBA"],
)
def test_each_kind_of_number_is_shown_as_the_picture_that_it_is(tmp_path: Path, images: Any, near: int) -> None:
    found = shown(write(tmp_path / "a.hdf5", images))
    assert (found.dtype, found.shape) == (np.uint8, PICTURES.shape)
    assert np.abs(found.astype(int) - PICTURES).max() <= near


@pytest.mark.parametrize(
    "images",
    [
        PICTURES.astype(np.int16) - 128,
        PICTURES.astype(np.uint16) * 16,
        (PICTURES / 255 - 0.45) / 0.22,
        PICTURES / 255 * 3,
        PICTURES.astype(np.float32) * 2,
        np.where(np.arange(STEPS)[:, None, None, None] == 0, np.nan, PICTURES / 255),
        PICTURES / 255 - 0.2,
    ],
    ids=["signed", "12 bits", "normalized", "0-3", "0-510", "NaN", "negative"],
)
def test_numbers_that_may_mean_several_pictures_are_refused(tmp_path: Path, images: Any) -> None:
    path = write(tmp_path / "a.hdf5", images)
    for ask in (shown, lambda p: find_recordings([p])):
        with pytest.raises(TempolocError, match=r"front_image holds \w+ from \S+ to \S+: pictures are 0 to 255"):
            ask(path)


def test_a_frame_that_is_unlike_those_looked_at_is_refused_when_it_is_shown(tmp_path: Path) -> None:
    images = PICTURES / 255
    images[3, 0, 0] = 40.0
    with pytest.raises(TempolocError, match="frame 3 of front_image has values outside of 0 to 1"):
        shown(write(tmp_path / "a.hdf5", images))
    images[2, 0, 0] = 40.0  # this one is looked at: no picture of bytes is so dark
    with pytest.raises(TempolocError, match="holds float64 from"):
        shown(write(tmp_path / "b.hdf5", images))


def as_files(kind: str) -> list[bytes]:
    made = []
    for picture in PICTURES:
        out = io.BytesIO()
        Picture.fromarray(picture).save(out, kind, **({"quality": 95, "subsampling": 0} if kind == "JPEG" else {}))
        made.append(out.getvalue())
    return made


def stored(files: list[bytes], how: str) -> tuple[Any, dict[str, Any]]:
    """The files as an array, and the options of its data set."""
    if how == "padded":
        padded = np.zeros((len(files), max(map(len, files)) + 5), np.uint8)
        for row, data in zip(padded, files, strict=True):
            row[: len(data)] = np.frombuffer(data, np.uint8)
        return padded, {}
    if how == "varying":
        rows = np.empty(len(files), object)
        rows[:] = [np.frombuffer(data, np.uint8) for data in files]
        return rows, {"dtype": h5py.vlen_dtype(np.uint8)}
    if how == "opaque":
        return np.array([np.void(d.ljust(max(map(len, files)), b"\0")) for d in files]), {}
    return np.array(files, dtype="S"), {}


@pytest.mark.parametrize("how", ["padded", "varying", "strings", "opaque"])
@pytest.mark.parametrize("kind", ["JPEG", "PNG"])
def test_pictures_that_are_files_are_read(tmp_path: Path, kind: str, how: str) -> None:
    images, options = stored(as_files(kind), how)
    path = write(tmp_path / "a.hdf5", images, **options)
    found = shown(path)
    assert np.abs(found.astype(float) - PICTURES).mean() < (3 if kind == "JPEG" else 1e-9)
    info = probe(DemoFrames(path, "demo_0", "front_image", 20.0, False))
    assert (info.width, info.height, info.n_frames, info.duration) == (24, 20, STEPS, STEPS / 20)


def test_a_picture_that_is_cut_off_or_of_another_size_is_named(tmp_path: Path) -> None:
    files = as_files("JPEG")
    images, options = stored([*files[:3], files[3][:50], *files[4:]], "varying")
    with pytest.raises(TempolocError, match="demo_0: frame 3 of front_image is no JPEG or PNG"):
        shown(write(tmp_path / "a.hdf5", images, **options))
    out = io.BytesIO()
    Picture.fromarray(PICTURES[0, :, :20]).save(out, "PNG")
    images, options = stored([*files[:5], out.getvalue(), *files[6:]], "varying")
    with pytest.raises(TempolocError, match="frame 5 of front_image is of another size than the first"):
        shown(write(tmp_path / "b.hdf5", images, **options))
    out = io.BytesIO()
    Picture.fromarray(PICTURES[0, :, :, 0].astype(np.uint16) * 200).save(out, "PNG")
    images, options = stored([out.getvalue()] * STEPS, "padded")
    with pytest.raises(TempolocError, match="pictures of more than 8 bits"):
        shown(write(tmp_path / "c.hdf5", images, **options))


@pytest.mark.parametrize("obs", [3, np.zeros(4), "images"])
def test_observations_that_are_no_group_are_none(tmp_path: Path, obs: object) -> None:
    path = write(tmp_path / "a.hdf5", PICTURES)
    with h5py.File(path, "a") as file:
        del file["data/demo_0/obs"]
        file["data/demo_0/obs"] = obs
    with pytest.raises(TempolocError, match="has no images: demo_0 has the observations none"):
        read_demo_file(path)
    with h5py.File(path) as file:
        assert len(opening_of(file["data/demo_0"])) == STEPS
        assert _hand(file["data/demo_0"]) is None


def test_every_demonstration_is_checked_not_the_first_alone(tmp_path: Path) -> None:
    path = write(tmp_path / "a.hdf5", PICTURES, PICTURES[::2], PICTURES)
    with pytest.raises(TempolocError, match=r"a\.hdf5/demo_1: front_image has 6 images for 12 actions"):
        find_recordings([path])
    with pytest.raises(TempolocError, match="has 6 images for 12 actions"):
        probe(DemoFrames(path, "demo_1", "front_image", 20.0, False))
    assert probe(DemoFrames(path, "demo_2", "front_image", 20.0, False)).n_frames == STEPS
    with h5py.File(path, "a") as file:
        del file["data/demo_1/obs/front_image"]
    with pytest.raises(TempolocError, match="demo_1 has no images front_image"):
        find_recordings([path])
    with pytest.raises(TempolocError, match="demo_0: front_image has 24 images, not one for each action"):
        read_demo_file(write(tmp_path / "b.hdf5", np.repeat(PICTURES, 2, axis=0)))
