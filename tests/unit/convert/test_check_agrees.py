"""What a conversion calls the same is the same to --check, which looks at the job of the values."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.documents.document import Document, documents_of
from allranks.convert.jobs import job_program
from allranks.convert.pods import pod_values
from allranks.convert.programs import references
from allranks.convert.reports import compare
from allranks.convert.verdicts import Fields
from allranks.errors import InputError
from allranks.service import convert as service
from allranks.yamlio.load import load_objects

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("word", ["$(HOSTNAME)", "$$$(A)", "$$", "$(UNSET)", "${sweep.lr}", "`id`"])
def test_a_word_that_kubernetes_leaves_as_typed_is_the_same(word: str) -> None:
    """No container has HOSTNAME for Kubernetes, which then puts nothing in."""
    ours, _ = references.expanded(("python", word, "$(X)"))
    theirs = [references.filled(part, {}) for part in ("python", word, "$(X)")]
    assert compare._run_words(ours, {}) == compare._run_words(theirs, {})


def test_a_host_name_that_nothing_puts_in_is_not_said_to_be_read() -> None:
    """$(HOSTNAME) reaches the program as typed; $HOSTNAME of a shell is the pod's name."""
    for text, is_read in (("exec a '$(HOSTNAME)'", False), ("exec a $HOSTNAME", True)):
        fields = Fields({}, {"workload": "torchrun"})
        job_program.note_host_name(fields, ("sh", "-c", text))
        assert is_read == bool(fields.notes)


_TWO = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
---
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: j}
"""


@pytest.mark.parametrize(("line", "place"), [("m.yaml:1", 0), ("m.yaml:5", 1), ("m.yaml:9", None)])
def test_of_two_jobs_of_one_name_the_one_of_the_line_is_compared(
    tmp_path: Path, line: str, place: int | None
) -> None:
    """The first line of a values file has the file and the line of its job."""
    file = tmp_path / "values.yaml"
    file.write_text(f"# Values made of PyTorchJob j ({line}).\n", encoding="utf-8")
    documents = list(documents_of(load_objects(_TWO, "m.yaml")))
    if place is None:
        with pytest.raises(InputError, match="has 2 jobs"):
            service._checked_job(str(file), ("m.yaml",), documents)
        return
    assert documents[place] is service._checked_job(str(file), ("m.yaml",), documents)


def test_a_parameter_in_an_image_is_refused_as_one() -> None:
    """Nobody has written ${sweep.NAME}, and nothing is to be filled in first."""
    container = {"name": "c", "image": "i:${sweep.o}"}
    fields = Fields({"template": {"spec": {"containers": [container]}}})
    pod = pod_values.read(fields, ("template",))
    with pytest.raises(InputError, match="a parameter of the search stands in the image"):
        job_program.check_image(fields, pod)


def test_a_queue_beside_its_job_is_not_the_job_that_is_compared() -> None:
    """It says something of the job's pods; alone it is looked at, and refused for its kind."""
    kinds = ("TorchrunQueue", "TorchrunJob")
    queue, job = (
        Document({"apiVersion": "torchrun.ai/v1", "kind": kind, "metadata": {"name": "a"}})
        for kind in kinds
    )
    assert job is service._checked_job("v.yaml", ("m.yaml",), [queue, job])
    assert queue is service._checked_job("v.yaml", ("m.yaml",), [queue])
