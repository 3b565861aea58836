"""What is no text where Kubernetes takes one, and numbers of another kind than is wanted."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert import original, registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import documents_of
from allranks.convert.kinds import search_spaces
from allranks.convert.reports import compare
from allranks.errors import InputError
from allranks.yamlio.load import load_objects

if TYPE_CHECKING:
    from allranks.convert.documents.document import Document

_JOB = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: lab}
spec:
  pytorchReplicaSpecs:
    Worker:
      replicas: 2.0
      template:
        metadata: {labels: {spot: yes, ver: 1.10}}
        spec:
          containers:
          - {name: pytorch, image: "a:1", command: [torchrun, a.py, 7], env: [{name: B, value: no}]}
"""
_HERE = "spec.pytorchReplicaSpecs.Worker.template"


def _documents(text: str) -> list[Document]:
    return list(documents_of(load_objects(text, "m.yaml")))


def test_a_boolean_or_a_number_in_the_place_of_a_text_is_named() -> None:
    """With what stands there, what YAML makes of it, and where."""
    (document,) = _documents(_JOB)
    notes = registry.convert_document(document, Context()).notes
    heads = [note.partition(", and Kubernetes")[0] for note in notes if "without quotes" in note]
    container = f"{_HERE}.spec.containers[0]"
    assert heads == [
        f"{_HERE}.metadata.labels.spot: yes is a boolean without quotes",
        f"{_HERE}.metadata.labels.ver: 1.10 is a number without quotes",
        f"{container}.command[2]: 7 is a number without quotes",
        f"{container}.env[0].value: no is a boolean without quotes",
    ]
    assert any('it is "1.1" here' in note and "(m.yaml:9)" in note for note in notes)
    (quoted,) = _documents(_JOB.replace("yes", "'yes'"))
    notes = registry.convert_document(quoted, Context()).notes
    assert not any("labels.spot" in note for note in notes)


def test_a_text_in_the_place_of_a_number_is_named() -> None:
    """It is read as the number; what people make up, as a label, may be any text."""
    text = _JOB.replace("2.0", '"2"').replace("spot: yes", 'size: "3"')
    (document,) = _documents(text)
    conversion = registry.convert_document(document, Context())
    (note,) = (note for note in conversion.notes if "takes a number" in note)
    assert note == (
        'spec.pytorchReplicaSpecs.Worker.replicas: "2" is a text, and Kubernetes takes a number: '
        "it is read as 2 here; write it without quotes (m.yaml:7)"
    )
    assert conversion.values["nodes"] == 2


def test_the_text_that_stands_for_a_boolean_is_compared() -> None:
    """`yes` is "true" on both sides, and a whole number of pods may be written 2.0."""
    (document,) = _documents(_JOB)
    pods = original.pods(document.data) or []
    assert len(pods) == 2
    labels = {key: value for _, key, value in compare._labels(pods[0].template)}
    assert labels == {"spot": "true", "ver": "1.1"}
    assert compare._plain_env(pods[0].main) == {"B": "false"}


@pytest.mark.parametrize("word", [{"a": 1}, ["a"]])
def test_a_word_that_is_no_text_at_all_is_refused(word: Any) -> None:
    """Nobody knows what was meant by it, and no cluster has taken it."""
    (document,) = _documents(_JOB.replace("7]", f"{json.dumps(word)}]"))
    with pytest.raises(InputError, match="and Kubernetes takes a text") as error:
        registry.convert_document(document, Context())
    assert error.value.problem.path == f"{_HERE}.spec.containers[0].command[2]"


def test_more_pods_than_kubernetes_counts_are_refused() -> None:
    """Their number is of 32 bits; of those that values may not have, none is compared either."""
    (document,) = _documents(_JOB.replace("2.0", "1000000000000000000000000000000"))
    with pytest.raises(InputError, match="more than Kubernetes counts"):
        registry.convert_document(document, Context())
    with pytest.raises(InputError, match="more than values may have"):
        original.pods(document.data)


def test_a_list_in_a_list_is_taken_apart() -> None:
    """Each object is found, with its line."""
    inner = {"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "inner"}}
    within = {"apiVersion": "v1", "kind": "List", "items": [inner]}
    whole = {"apiVersion": "v1", "kind": "List", "items": [inner, within]}
    documents = _documents(json.dumps(whole))
    assert [(item.name, item.prefix) for item in documents] == [
        ("inner", ("items", 0)),
        ("inner", ("items", 1, "items", 0)),
    ]


def test_an_end_of_whole_numbers_is_whole() -> None:
    """Katib ends such an Experiment, and rounding searches another space."""
    ends: dict[str, float | None] = {"min": 1.0, "max": 6}
    assert search_spaces.whole_ends(ends, "p") == {"min": 1, "max": 6}
    with pytest.raises(InputError, match=r"1\.5 is no whole number") as error:
        search_spaces.whole_ends({"min": 1.5, "max": 6}, "p")
    assert (error.value.problem.path, error.value.problem.hint[:9]) == ("p.min", 'write "2"')
