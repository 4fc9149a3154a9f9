"""Small HDF5 files of demonstrations with images, as robomimic, LIBERO and Isaac Lab Mimic lay them out."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import numpy as np

from tempoloc_nb.formats.hdf5_rules import SIGNALS, signal_of
from tempoloc_nb.video.files import Image

ROBOMIMIC = {"env_name": "Stack_D0", "type": 1, "env_kwargs": {"control_freq": 20, "robots": ["Panda"]}}
ISAACLAB = {"env_name": "Isaac-Stack-Cube-Franka-IK-Rel-Visuomotor-v0", "type": 2,
            "sim_args": {"dt": 0.01, "decimation": 5, "render_interval": 2, "num_envs": 1}}  # fmt: skip


def image_file(
    path: Path,
    demos: Sequence[Sequence[Image]],
    kind: Literal["robomimic", "libero", "isaaclab"] = "robomimic",
    signals: Sequence[str] = (),
) -> Path:
    """Demonstrations of these pictures, with a second camera on the wrist; `signals` rise one step after another."""
    import h5py

    with h5py.File(path, "w") as file:
        data = file.create_group("data")
        data.attrs["env_args"] = json.dumps(ISAACLAB if kind == "isaaclab" else ROBOMIMIC)
        data.attrs["total"] = sum(map(len, demos))
        file["mask/train"] = np.array([b"demo_0"])
        for i, pictures in enumerate(demos):
            demo, images = data.create_group(f"demo_{i}"), np.stack(pictures)
            steps = len(images)
            demo.attrs["num_samples"] = steps
            demo["actions"], demo["states"] = np.zeros((steps, 7)), np.ones((steps, 45))
            for name, values in _observations(images, kind).items():
                demo.create_dataset(f"obs/{name}", data=values, compression="gzip" if kind == "robomimic" else None)
            group, dtype = SIGNALS["isaaclab" if kind == "isaaclab" else "mimicgen"]
            for k, name in enumerate(signals, 1):
                demo[f"{group}/{name}"] = signal_of(k, steps, dtype)
        if kind == "libero":
            data.attrs["macros_image_convention"] = "opengl"
    return path


def _observations(images: Any, kind: str) -> dict[str, Any]:
    """Names and values below `obs`: the wrist's camera first, as some files have it."""
    steps = len(images)
    common = {"object": np.zeros((steps, 14))}
    if kind == "isaaclab":
        return {**common, "wrist_cam": 255 - images, "table_cam": images, "table_cam_depth": images[..., :1],
                "table_cam_segmentation": np.concatenate([images, images[..., :1]], -1)}  # fmt: skip
    if kind == "libero":
        return {**common, "eye_in_hand_rgb": images, "agentview_rgb": images[:, ::-1]}
    return {**common, "robot0_eye_in_hand_image": 255 - images, "agentview_image": images,
            "agentview_depth": images[..., :1]}  # fmt: skip
