"""Settings: every key typed, required and used."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import pytest
from places import ROOT

from tempoloc_nb.core.errors import TempolocError
from tempoloc_nb.core.settings import Settings, load_settings, settings

TEXT = (ROOT / "settings.ini").read_text()


def load(tmp_path: Path, text: str) -> Settings:
    path = tmp_path / "settings.ini"
    path.write_text(text)
    return load_settings(path)


def test_paths_are_absolute_and_beside_the_file(tmp_path: Path) -> None:
    found = load(tmp_path, TEXT)
    assert found.paths.data == tmp_path / "data"
    assert found.paths.results == tmp_path / "data" / "results"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("mre_target_pct = 30", "", "settings.ini, scoring lacks 'mre_target_pct'"),
        ("mre_target_pct", "mre_goal", "unknown key 'mre_goal'"),
        ("mre_target_pct = 30", "mre_target_pct = lots", 'mre_target_pct = "lots" is not a number'),
        ("[scoring]", "[scores]", "unknown key 'scores'; did you mean 'scoring'"),
        ("clips_per_task = 2", "clips_per_task = 3.5", 'clips_per_task = "3.5" is not a whole number'),
        ("publishable = no", "publishable = perhaps", 'publishable = "perhaps" is not true or false'),
        ("fps_grid = 4, 8, 12", "fps_grid = 4, , 12", "fps_grid"),
        ("seed = 20261121", "seed = 1\nseed = 2", "not a valid settings file"),
        ("[paths]", "paths", "not a valid settings file"),
    ],
)
def test_what_is_wrong_is_named(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT
    with pytest.raises(TempolocError, match=message):
        load(tmp_path, TEXT.replace(old, new, 1))


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(TempolocError, match=r"cannot read the settings file .*absent\.ini"):
        load_settings(tmp_path / "absent.ini")


def test_an_unknown_profile_lists_the_known_ones() -> None:
    with pytest.raises(TempolocError, match="unknown profile 'huge': choose one of full, gpu8, quick"):
        settings().profile("huge")


def test_every_key_is_used_outside_the_settings_module() -> None:
    """A key that nothing reads is a promise that nothing keeps."""
    code = "".join(
        p.read_text() for p in (ROOT / "tempoloc_nb").rglob("*.py") if p.stem not in ("settings", "_modidx")
    ) + "".join(p.read_text() for p in (ROOT / "nbs" / "studies").glob("*.ipynb"))
    found = settings()
    groups = [found.paths, found.study, found.scoring, found.pixels, found.profile("quick")]
    names = [f.name for group in groups for f in dataclasses.fields(group)]
    assert len(names) > 15
    unused = [name for name in names if not re.search(rf"\.{name}\b", code)]
    assert unused == []


def test_each_fault_has_a_line(tmp_path: Path) -> None:
    with pytest.raises(TempolocError) as told:
        load(tmp_path, TEXT.replace("fps = 8", "fps = fast").replace("resamples", "samples"))
    assert len(str(told.value).splitlines()) == 7  # one rate, and three profiles with a missing and an unknown key
