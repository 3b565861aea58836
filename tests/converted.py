"""Our own samples of other projects' objects, converted."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import documents_of
from allranks.convert.verdicts import Outcome, leaves
from allranks.errors import InputError, InvalidValues
from allranks.yamlio import load

if TYPE_CHECKING:
    from allranks.convert.documents.document import Document
    from allranks.convert.verdicts import Conversion
    from allranks.errors import Problem

DATA = Path(__file__).parent / "data" / "convert"


def sample(file: str, name: str) -> Conversion:
    """A job of a sample, converted; every field of it has a verdict.

    Args:
        file: the sample's file.
        name: the job's name.
    """
    text = (DATA / file).read_text()
    result = text_as_jobs(text)
    conversion = next(item for item in result.conversions if item.name == name)
    source = next(
        document.data
        for document in documents(text)
        if registry.is_job(document)
        and document.data.get("kind") == conversion.kind
        and name in (document.name, document.data.get("name"))
    )
    assert [verdict.path for verdict in conversion.verdicts] == list(leaves(source))
    return conversion


def samples() -> dict[str, Document]:
    """The objects of all our samples, the first of each name."""
    objects: dict[str, Document] = {}
    for path in sorted(DATA.glob("*.yaml")):
        for item in documents_of(load.load_objects(path.read_bytes(), path.name)):
            objects.setdefault(item.name, item)
    return objects


def documents(text: str) -> list[Document]:
    """The objects of a text."""
    return list(documents_of(load.load_objects(text, "job.yaml")))


def text_as_jobs(text: str) -> registry.Result:
    """The jobs of a text, converted."""
    return registry.convert_all(documents(text), Context())


def refusal(text: str) -> Problem:
    """Why the first job of a text is refused."""
    try:
        text_as_jobs(text)
    except InvalidValues as error:
        return error.problems[0]
    except InputError as error:
        return error.problem
    raise AssertionError("it is converted")


def lost(conversion: Conversion) -> set[str]:
    """The fields that are not carried."""
    return {verdict.path for verdict in conversion.of(Outcome.NOT_CARRIED)}
