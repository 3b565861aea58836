"""Names that Linux tells apart and others do not: they run in pods, and are never mixed up."""

from __future__ import annotations

import io
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.cli import workspace as view
from allranks.errors import InputError
from allranks.service import workspace as service
from allranks.workspace import archive as archives
from allranks.workspace import snapshot as snapshots

from .test_unpack import Pod
from .test_unpack import workspace as script
from .test_ways import _Console

_COMPOSED, _DECOMPOSED = (unicodedata.normalize(form, "é.py") for form in ("NFC", "NFD"))
_FILES = {
    "README": "1",
    "readme": "2",
    "Model/a.py": "3",
    "model/a.py": "4",
    _COMPOSED: "5",
    _DECOMPOSED: "6",
    "train.py": "7",
}
_PAIRS = (("Model", "model"), ("README", "readme"), (_DECOMPOSED, _COMPOSED))


def _folding(path: Path | str) -> str:
    """A name as macOS sees it; the system under the test is Linux."""
    return unicodedata.normalize("NFD", Path(path).name).casefold()


def _fake_exists(path: Path) -> bool:
    """Whether a file system that does not tell names apart has a path."""
    return any(_folding(path) == _folding(name) for name in path.parent.iterdir())


@pytest.fixture
def code(tmp_path: Path) -> Path:
    """A repository from Linux, with names in pairs."""
    folder = tmp_path / "code"
    for path, text in _FILES.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return folder


def _read(folder: Path) -> dict[str, str]:
    files = (path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_text() for path in files}


def test_both_names_go_and_both_arrive(code: Path, tmp_path: Path) -> None:
    """Pods run on Linux, and a repository that runs there is not refused for another system."""
    archive = archives.pack(snapshots.take(code))
    archives.unpack(archive, tmp_path / "here")
    assert _FILES == _read(tmp_path / "here")
    (tmp_path / "pod").mkdir()
    pod = Pod(tmp_path / "pod")
    pod.send(archive.data, archive.compression)
    assert 0 == pod.unpack()
    assert _FILES == _read(pod.code)


def test_a_dry_run_names_the_pairs(code: Path) -> None:
    """Of a pair of folders the folders alone, not all that they hold."""
    packed = service.pack(str(code), (), {})
    assert sorted(_PAIRS) == sorted(packed.report.look_alikes)
    text = io.StringIO()
    view.show(_Console(text), packed)  # type: ignore[arg-type]
    assert "README and readme differ in what macOS and Windows do not tell apart" in text.getvalue()


def test_nothing_is_written_where_a_system_holds_one_of_two(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`show --code` there is refused as a whole, with both names and the folder."""
    archive = archives.pack(snapshots.take(code))
    monkeypatch.setattr(
        archives,
        "distinguishes",
        lambda _, first, second: _folding(first) != _folding(second),
    )
    with pytest.raises(InputError, match="has Model and model, which this file") as caught:
        archives.unpack(archive, tmp_path / "there")
    assert str(tmp_path / "there") == caught.value.problem.path
    assert [] == list((tmp_path / "there").iterdir())


def test_a_pod_on_such_a_volume_says_so(
    code: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """And runs nothing: neither of two files may take the other's place, nor folders be one."""
    monkeypatch.setattr(script, "exists", _fake_exists)
    (tmp_path / "pod").mkdir()
    pod = Pod(tmp_path / "pod")
    for names in (("README", "readme"), ("Model/a.py", "model/b.py")):
        for path in code.rglob("*"):
            if path.is_file():
                path.unlink()
        for name in names:
            (code / name).write_text("")
        archive = archives.pack(snapshots.take(code))
        pod.send(archive.data, archive.compression)
        assert 217 == pod.unpack()
        assert "the file system here does not tell apart" in capsys.readouterr().out
        assert [] == list(pod.code.iterdir())


def test_this_system_is_asked_itself(tmp_path: Path) -> None:
    """By the names, in the folder that is written to; nothing is left there."""
    assert archives.distinguishes(tmp_path, "README", "readme")
    assert not archives.distinguishes(tmp_path, "README", "README")
    assert [] == list(tmp_path.iterdir())


_NAMES = st.sampled_from(["a", "A", "b", "é", unicodedata.normalize("NFD", "é"), "ß", "SS", "ss"])


@given(names=st.sets(st.lists(_NAMES, min_size=1, max_size=3).map("/".join)))
def test_pairs_are_named_where_a_folding_system_would_lose_one(names: set[str]) -> None:
    """No pair exactly where no two paths, folders included, become the same."""
    paths = names | {
        str(above) for name in names for above in Path(name).parents if str(above) != "."
    }
    folded = {unicodedata.normalize("NFD", path).casefold() for path in paths}
    pairs = snapshots.look_alikes(paths)
    assert (len(folded) < len(paths)) == bool(pairs)
    for first, second in pairs:
        assert first != second
        assert {first, second} <= paths
