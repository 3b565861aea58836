"""A render in a folder: what it writes, what it replaces, what it never touches."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.cli import files
from allranks.errors import InputError

if TYPE_CHECKING:
    from pathlib import Path


def manifest(kind: str, name: str, extra: str = "") -> str:
    """One manifest as text."""
    return f"apiVersion: v1\nkind: {kind}\nmetadata:\n  name: {name}\n{extra}"


def stream(*manifests: str) -> str:
    """Manifests as helm prints them."""
    return "".join(f"---\n# Source: c/templates/x.yaml\n{text}" for text in manifests)


JOB = manifest("Job", "demo")
SERVICE = manifest("Service", "demo")


def names(path: Path) -> set[str]:
    """The files of a folder, without the list."""
    return {entry.name for entry in path.iterdir()} - {files.LIST}


def test_one_file_per_object(tmp_path: Path) -> None:
    """Each object is in a file named for its kind and name, with the very text it had."""
    changes = files.write_folder(tmp_path / "a" / "b", "ns/demo", stream(JOB, SERVICE))
    assert changes.written == ("job-demo.yaml", "service-demo.yaml")
    text = (tmp_path / "a" / "b" / "job-demo.yaml").read_text()
    assert text == f"# Source: c/templates/x.yaml\n{JOB}"


def test_the_same_render_changes_nothing(tmp_path: Path) -> None:
    """Writing the same again leaves every file's time as it was."""
    files.write_folder(tmp_path, "ns/demo", stream(JOB, SERVICE))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}
    changes = files.write_folder(tmp_path, "ns/demo", stream(JOB, SERVICE))
    assert changes.same == ("job-demo.yaml", "service-demo.yaml")
    assert ((), ()) == (changes.written, changes.removed)
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.iterdir()}


def test_what_is_no_longer_rendered_is_removed(tmp_path: Path) -> None:
    """A stale file of ours goes; a person's own files stay."""
    (tmp_path / "kustomization.yaml").write_text("resources: []\n")
    files.write_folder(tmp_path, "ns/demo", stream(JOB, SERVICE))
    changes = files.write_folder(tmp_path, "ns/demo", stream(JOB))
    assert changes.removed == ("service-demo.yaml",)
    assert {"kustomization.yaml", "job-demo.yaml"} == names(tmp_path)


def test_a_persons_file_is_never_overwritten(tmp_path: Path) -> None:
    """A file that we did not write is refused by name, and nothing else is written."""
    (tmp_path / "service-demo.yaml").write_text("mine\n")
    with pytest.raises(InputError, match="belongs to you") as excinfo:
        files.write_folder(tmp_path, "ns/demo", stream(JOB, SERVICE))
    assert str(tmp_path / "service-demo.yaml") == excinfo.value.problem.path
    assert {"service-demo.yaml"} == {entry.name for entry in tmp_path.iterdir()}
    assert (tmp_path / "service-demo.yaml").read_text() == "mine\n"


def test_a_link_is_never_followed(tmp_path: Path) -> None:
    """A link in the place of a file of ours is somebody's, even when it leads nowhere."""
    (tmp_path / "job-demo.yaml").symlink_to(tmp_path / "nowhere")
    with pytest.raises(InputError, match="belongs to you"):
        files.write_folder(tmp_path, "ns/demo", stream(JOB))
    assert not (tmp_path / "nowhere").exists()
    (tmp_path / "job-demo.yaml").unlink()
    files.write_folder(tmp_path, "ns/demo", stream(JOB))
    (tmp_path / "job-demo.yaml").rename(tmp_path / "real")
    (tmp_path / "job-demo.yaml").symlink_to("real")
    with pytest.raises(InputError, match="belongs to you"):
        files.write_folder(tmp_path, "ns/demo", stream(manifest("Job", "demo", "spec: {}\n")))


def test_two_releases_share_a_folder(tmp_path: Path) -> None:
    """Each release owns its files; neither removes nor replaces the other's."""
    files.write_folder(tmp_path, "ns/demo", stream(JOB))
    files.write_folder(tmp_path, "ns/other", stream(manifest("Job", "other")))
    files.write_folder(tmp_path, "ns/demo", stream(SERVICE))
    assert {"job-other.yaml", "service-demo.yaml"} == names(tmp_path)
    with pytest.raises(InputError, match="belongs to the release ns/other"):
        files.write_folder(tmp_path, "ns/demo", stream(manifest("Job", "other")))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{}", '{"files": []}', '{"files": {"a": ["../x"]}}', '{"files": {"a": [".git"]}}'],
)
def test_a_list_that_is_not_ours_is_not_trusted(tmp_path: Path, text: str) -> None:
    """A damaged or made-up list stops the render; no file outside is ever removed."""
    (tmp_path / files.LIST).write_text(text)
    with pytest.raises(InputError) as excinfo:
        files.write_folder(tmp_path, "ns/demo", stream(JOB))
    assert excinfo.value.problem.path.endswith(files.LIST)
    assert set() == names(tmp_path)


def test_a_file_is_no_folder(tmp_path: Path) -> None:
    """A file in the place of the folder is refused."""
    (tmp_path / "out").write_text("x")
    for path in (tmp_path / "out", tmp_path / "out" / "deeper"):
        with pytest.raises(InputError):
            files.write_folder(path, "ns/demo", stream(JOB))


def test_objects_of_one_name_get_files_of_their_own(tmp_path: Path) -> None:
    """Two objects of one kind and name, in two namespaces, do not overwrite each other."""
    files.write_folder(
        tmp_path, "ns/demo", stream(JOB, manifest("Job", "demo", "  namespace: b\n"))
    )
    assert {"job-demo.yaml", "job-demo-2.yaml"} == names(tmp_path)


def test_names_are_safe_as_files(tmp_path: Path) -> None:
    """No object's name leads out of the folder or makes a hidden file."""
    files.write_folder(
        tmp_path, "ns/demo", stream(manifest("Role", "system:a/../b"), manifest("X", '"."'))
    )
    assert {"role-system-a-..-b.yaml", "x-.yaml"} == names(tmp_path)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["Job", "Service"]), st.from_regex(r"[a-z]{1,3}", fullmatch=True)
        ),
        min_size=1,
        max_size=8,
    )
)
def test_no_object_is_lost(objects: list[tuple[str, str]]) -> None:
    """Whatever the names, every object has a file, in the order of the stream."""
    texts = [manifest(kind, name) for kind, name in objects]
    assert texts == [text.split("\n", 1)[1] for text in files.split(stream(*texts)).values()]


def test_a_block_of_text_is_not_cut(tmp_path: Path) -> None:
    """`---` inside a block scalar is text, not the end of a document."""
    script = manifest("ConfigMap", "demo", "data:\n  x: |\n    a\n    ---\n    b\n")
    files.write_folder(tmp_path, "ns/demo", stream(script, JOB))
    assert {"configmap-demo.yaml", "job-demo.yaml"} == names(tmp_path)


def test_the_list_says_what_it_is(tmp_path: Path) -> None:
    """A person who finds the list reads what it is for."""
    files.write_folder(tmp_path, "ns/demo", stream(JOB))
    data = json.loads((tmp_path / files.LIST).read_text())
    assert "allranks render" in data["about"]
    assert {"ns/demo": ["job-demo.yaml"]} == data["files"]
