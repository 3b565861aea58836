"""Files with TorchrunJob and TorchrunQueue objects, read as values in place of values files.

`allranks run -f` and the other commands that take values take a file with a TorchrunJob as well;
`allranks queue import` takes the queues.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.kinds import torchrun
from allranks.convert.verdicts import Outcome
from allranks.errors import InputError, InvalidValues
from allranks.service import queues as queues_service
from allranks.values import charts, files
from allranks.values.sources import CONVERTED, STDIN_NAME, Sources
from allranks.yamlio import dump, load

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.convert.verdicts import Conversion, Verdict
    from allranks.errors import Problem
    from allranks.k8s.manifest import Manifest


_OWN_LABELS = frozenset(
    {names.APP_NAME, names.APP_INSTANCE, names.APP_MANAGED_BY, names.APP_PART_OF, names.APP_VERSION}
)
# Whose labels and annotations say something of an object that is left behind.
_OWNERS = (f"{names.DOMAIN}/", "helm.sh/", "meta.helm.sh/", "kubectl.kubernetes.io/")


def queues(paths: tuple[str, ...]) -> list[Conversion]:
    """The TorchrunQueue objects of files, as values of charts/queue.

    Raises:
        InputError: a file cannot be read or has none, or two queues have one name.
    """
    conversions: dict[str, Conversion] = {}
    for path in paths:
        source = STDIN_NAME if path.strip() == files.STDIN else path
        objects = [
            item for item in _objects(files.read(path), source) if torchrun.is_torchrun(item)
        ]
        queue_objects = [item for item in objects if item["kind"] in torchrun.QUEUE_KINDS]
        if not queue_objects:
            is_job = bool(objects)
            raise InputError(
                f"{source} has a TorchrunJob, and no queue" if is_job else f"{source} has no queue",
                hint=f"`{names.CLI} run NAME -f {path}` runs a job"
                if is_job
                else f"give a file with an object of {torchrun.GROUP} and kind TorchrunQueue",
            )
        for item in queue_objects:
            conversion = _fit(_located(lambda item=item: _queue(item), source), source)
            if conversion.name in conversions:
                raise InputError(
                    f"{source} has a second queue {conversion.name}",
                    hint="import the queues of each namespace apart",
                )
            conversions[conversion.name] = conversion
    return list(conversions.values())


def _queue(manifest: Manifest) -> Conversion:
    conversion = torchrun.queue(manifest)
    queues_service.check_name(conversion.name, "metadata.name")
    return conversion


def jobs(sources: Sources) -> tuple[Sources, tuple[Conversion, ...]]:
    """The sources with values in place of TorchrunJob objects, and how these were converted.

    Args:
        sources: with the contents of the files that could be read.

    Raises:
        InputError: a file has several of them, or a queue.
    """
    paths, contents = [], dict(sources.contents)
    conversions: list[Conversion] = []
    for path in sources.files:
        conversion = _job(contents[path], path) if path in contents else None
        if conversion is None:
            paths.append(path)
            continue
        conversions.append(conversion)
        source = STDIN_NAME if path.strip() == files.STDIN else path
        name = f"{source}{CONVERTED}"
        paths.append(name)
        contents[name] = dump.dump(conversion.values).encode()
    if not conversions:
        return sources, ()
    return replace(sources, files=tuple(paths), contents=contents), tuple(conversions)


def _job(data: bytes, path: str) -> Conversion | None:
    if names.TORCHRUN_GROUP.encode() not in data:
        return None
    try:
        objects = [item for item in _objects(data, path) if torchrun.is_torchrun(item)]
    except InputError:
        return None  # who reads the values says it
    if not objects:
        return None
    if len(objects) > 1:
        raise InputError(
            f"{path} has {len(objects)} objects of {torchrun.GROUP}, and one is run at a time",
            hint="give each job a file of its own; "
            f"`{names.CLI} queue import {path}` takes the queues",
        )
    if objects[0]["kind"] in torchrun.QUEUE_KINDS:
        raise InputError(
            f"{path} has a queue, and no job",
            hint=f"`{names.CLI} queue import {path}` makes values for charts/queue of it",
        )
    return _located(lambda: torchrun.job(objects[0]), path)


def _objects(data: bytes, source: str) -> Iterator[Manifest]:
    for document in load.load_all(data, source):
        if isinstance(document, dict) and document.get("kind") == "List":
            yield from (item for item in document.get("items") or () if isinstance(item, dict))
        elif isinstance(document, dict):
            yield document


def _located(convert: Any, source: str) -> Conversion:
    try:
        conversion: Conversion = convert()
    except InputError as error:
        problem = error.problem
        raise InputError(
            problem.message, path=problem.path, hint=problem.hint, source=source
        ) from error
    return conversion


def as_file(conversion: Conversion) -> str:
    """A conversion as a values file, which says in its head what became of each field."""
    head = [f"Values for charts/queue, made of {conversion.summary()}."]
    head += [str(item) for item in conversion.of(Outcome.CHANGED, Outcome.NOT_CARRIED)]
    comments = "".join(f"# {' '.join(line.split())}\n" for line in head)
    return comments + dump.dump(conversion.values)


def _fit(conversion: Conversion, source: str) -> Conversion:
    """The conversion with values that charts/queue takes.

    An object may have what its controller's schema let pass and ours does not: an image that is
    none, a name that no queue can have. `queue install` would refuse the file that such values are
    written to, so they are refused here, by the field that they come from.

    Args:
        conversion: what was made of the object.
        source: the file that has it.

    Raises:
        InputError: a value is none that the chart takes; the field that it was made of is named.
    """
    fitting = _without_the_chart_s_own(conversion)
    document = load.load(dump.dump(fitting.values), source)
    try:
        charts.check_document(document, names.QUEUE_CHART)
    except InvalidValues as error:
        raise InvalidValues([_of_field(item, fitting, source) for item in error.problems]) from None
    except InputError as error:
        raise InvalidValues([_of_field(error.problem, fitting, source)]) from None
    return fitting


def _without_the_chart_s_own(conversion: Conversion) -> Conversion:
    """The conversion without labels and annotations that the chart, helm and kubectl write."""
    values = dict(conversion.values)
    for block in ("labels", "annotations"):
        own = values.get(block)
        if not isinstance(own, dict):
            continue  # none, or what the chart refuses
        values[block] = {key: item for key, item in own.items() if not _is_own(str(key))}
        if not values[block]:
            del values[block]
    verdicts = tuple(
        replace(verdict, outcome=Outcome.CHANGED, to="", why="the chart, helm or kubectl writes it")
        if verdict.keys[:-1] in {("metadata", "labels"), ("metadata", "annotations")}
        and _is_own(str(verdict.keys[-1]))
        else verdict
        for verdict in conversion.verdicts
    )
    return replace(conversion, values=values, verdicts=verdicts)


def _is_own(key: str) -> bool:
    return key in _OWN_LABELS or key.startswith(_OWNERS)


def _of_field(problem: Problem, conversion: Conversion, source: str) -> Problem:
    """The problem of a value, said of the field of the object that it was made of."""

    def concerns(verdict: Verdict) -> bool:
        rest = problem.path.removeprefix(verdict.to) if verdict.to else problem.path
        return rest != problem.path and rest[:1] in ("", ".", "[")

    fields = [verdict for verdict in conversion.verdicts if concerns(verdict)]
    longest = max((len(verdict.to) for verdict in fields), default=0)
    fields = [verdict for verdict in fields if len(verdict.to) == longest]
    if not fields:
        return problem.at(source=source)
    # A mapping is carried as a whole: its key says which of its fields it is.
    ends = [(f".{item.keys[-1]}", f'["{item.keys[-1]}"]') for item in fields]
    same = (item for item, end in zip(fields, ends, strict=True) if problem.path.endswith(end))
    return problem.at(
        next(same, fields[0]).path,
        message=f"{problem.message}; it becomes {problem.path}",
        source=source,
    )
