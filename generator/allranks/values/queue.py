"""A queue: the values that a team's jobs start from, are held to, and cannot change.

A queue is a release of `charts/queue`. Its ConfigMap has three blocks, each apart: `defaults` lies
below a person's own values, `rules` are checked, and `imposed` lies above all. Here text becomes a
queue; who reads the file or the cluster is elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from allranks import humanize, names
from allranks.errors import InputError, InvalidValues
from allranks.schema import paths
from allranks.values.merge import merge
from allranks.yamlio import chart_yaml
from allranks.yamlio.document import ValuesDocument
from allranks.yamlio.load import load as load_yaml
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from allranks.k8s.manifest import Manifest

DEFAULTS, RULES, IMPOSED = "defaults", "rules", "imposed"
BLOCKS = (DEFAULTS, RULES, IMPOSED)
# What else makes a file that of a queue: keys that no job has. A release may say nothing but these.
OWN_KEYS = frozenset({"policy", "quota", "limits", "team", "kueue", "kai", "volcano"})
_ABOUT = "queue"
_REVISION_LENGTH = 12
_CUT = 4  # letters of a rule's name that was cut short
# Which chart a job is for, and its presets, cannot be put over what a person has written.
_NOT_IMPOSED = ("workload", "preset", "layout", "queueRef")


class QueueBlock(ValuesDocument):
    """Values that a queue gives, in the order of precedence beside those of a person's files."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class QueueRules:
    """The limits of a queue's jobs; zero and empty mean "no limit".

    Attributes:
        max_gpus_per_job: GPUs of a job.
        max_gpus_in_all: GPUs of all jobs of the queue together.
        max_nodes_per_job: pods of a job, one per node.
        max_duration_seconds: seconds after which a job ends, at the latest.
        images: what an image's name may be; a "*" stands for any text.
        priority_classes: names of priority classes.
        workloads: the workloads that a job may be.
        allow_host_path: whether a job may mount folders of its nodes.
        allow_host_network: whether its pods may be in the network of their nodes.
        allow_privileged: whether its containers may be privileged.
    """

    max_gpus_per_job: int = 0
    max_gpus_in_all: int = 0
    max_nodes_per_job: int = 0
    max_duration_seconds: int = 0
    images: tuple[str, ...] = ()
    priority_classes: tuple[str, ...] = ()
    workloads: tuple[str, ...] = ()
    allow_host_path: bool = False
    allow_host_network: bool = False
    allow_privileged: bool = False

    @classmethod
    def of(cls, document: ValuesDocument) -> QueueRules:
        """The rules of a block.

        Args:
            document: the block; what it does not have is no limit, and what may be allowed is not.

        Raises:
            InvalidValues: a rule is unknown, or its value is none for it.
        """
        problems = []
        values: dict[str, Any] = {}
        for key, value in document.data.items():
            name = _RULE_NAMES.get(key)
            kind = _RULE_KINDS[name] if name else None
            if name is None or kind is None:
                error = InputError(
                    "is no rule of a queue",
                    path=f"{RULES}.{key}",
                    hint=_nearest_rule(key),
                    source=document.where((key,)),
                )
                problems.append(error.problem)
            elif not _fits(value, kind):
                error = InputError(
                    f"is {json.dumps(value, ensure_ascii=False)}, not {_KIND_WORDS[kind]}",
                    path=f"{RULES}.{key}",
                    hint=f"write {_KIND_WORDS[kind]}",
                    source=document.where((key,)),
                )
                problems.append(error.problem)
            else:
                values[name] = tuple(value) if kind is tuple else value
        if problems:
            raise InvalidValues(problems)
        return cls(**values)

    def as_dict(self) -> dict[str, Any]:
        """The rules as a queue's values have them."""
        return {
            key: list(value) if isinstance(value := getattr(self, name), tuple) else value
            for key, name in _RULE_NAMES.items()
        }


_RULE_NAMES = {
    "maxGpusPerJob": "max_gpus_per_job",
    "maxGpusInAll": "max_gpus_in_all",
    "maxNodesPerJob": "max_nodes_per_job",
    "maxDurationSeconds": "max_duration_seconds",
    "images": "images",
    "priorityClasses": "priority_classes",
    "workloads": "workloads",
    "allowHostPath": "allow_host_path",
    "allowHostNetwork": "allow_host_network",
    "allowPrivileged": "allow_privileged",
}
_RULE_KINDS: dict[str, type] = {
    name: tuple
    if name in {"images", "priority_classes", "workloads"}
    else bool
    if name.startswith("allow")
    else int
    for name in _RULE_NAMES.values()
}
_KIND_WORDS = {int: "a whole number from 0", bool: "true or false", tuple: "a list of texts"}


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue's blocks, each value with its place.

    Attributes:
        name: the queue.
        revision: changes with what the blocks say.
        defaults: values below a person's own.
        imposed: values above all others.
        rules: what its jobs are held to.
        rules_document: the same as it is written.
        marks: the values by which a job says whose it is.
    """

    name: str
    revision: str
    defaults: ValuesDocument
    imposed: ValuesDocument
    rules: QueueRules
    rules_document: ValuesDocument = field(repr=False)
    marks: ValuesDocument = field(repr=False)

    @property
    def label(self) -> str:
        """The queue in a sentence."""
        return f"queue {self.name}"

    def as_dict(self) -> dict[str, Any]:
        """The queue as JSON-ready data."""
        return {
            "name": self.name,
            "revision": self.revision,
            DEFAULTS: self.defaults.data,
            RULES: self.rules.as_dict(),
            IMPOSED: self.imposed.data,
        }

    def as_json(self) -> str:
        """The queue as text, which a run keeps; `recorded` reads it."""
        return json.dumps(self.as_dict(), sort_keys=True, separators=(",", ":"))


def from_config_map(manifest: Manifest) -> Queue:
    """The queue of a ConfigMap, as the cluster or `helm template` gives it.

    Raises:
        InputError: it is no queue's, or a key of it cannot be read.
    """
    metadata = manifest.get("metadata") or {}
    object_name = str(metadata.get("name") or "")
    where = f"ConfigMap {object_name}"
    if metadata.get("namespace"):
        where += f" in namespace {metadata['namespace']}"
    data = manifest.get("data") or {}
    labels = metadata.get("labels") or {}
    name = str(labels.get(names.QUEUE) or "")
    if not name or not isinstance(data, dict):
        raise InputError(
            f"{where} is no queue's: it has no label {names.QUEUE}",
            hint=f"`{names.CLI} queue list` shows the queues",
        )
    blocks = {block: _block_of(data.get(f"{block}.yaml"), name, block, where) for block in BLOCKS}
    about = _block_of(data.get(f"{_ABOUT}.yaml"), name, _ABOUT, where)
    annotations = metadata.get("annotations") or {}
    revision = str(annotations.get(names.QUEUE_REVISION) or about.data.get("revision") or "")
    try:
        return _queue(name, revision, blocks)
    except InputError as error:
        raise _in_key(error, where, RULES) from error


def has_own_keys(values: Mapping[str, Any]) -> bool:
    """Whether values have what those of a queue alone have, or nothing but a name.

    Args:
        values: a file's values, or those of several.
    """
    return not (OWN_KEYS | set(BLOCKS)).isdisjoint(values) or list(values) == ["name"]


def from_file(
    text: bytes,
    source: str,
    chart_rules: Callable[[], Mapping[str, Any]],
    name: str = "",
    check: Callable[[ValuesDocument], None] = lambda _: None,
) -> Queue:
    """The queue of a file: values of `charts/queue`, or a queue's ConfigMap as YAML.

    What `helm template` prints of the chart is taken, too: the queue's ConfigMap is among it.

    Args:
        text: the file's content.
        source: its name.
        chart_rules: gives the rules that the chart has by default.
        name: the queue's name, as the release's is, where the file does not say it.
        check: refuses values that are none of the chart's.

    Raises:
        InputError: it is neither, or what stands in it cannot be read.
    """
    manifest = _config_map(text, source)
    if manifest is not None:
        return from_config_map(manifest)
    document = load_yaml(text, source)
    if not has_own_keys(document.data):
        raise InputError(
            "is no queue's file: it has none of defaults, rules and imposed",
            path="--queue-file",
            hint="name the values file of charts/queue, or the queue's ConfigMap as YAML",
            source=source,
        )
    check(document)
    blocks = {block: _part(document, block) for block in BLOCKS}
    own_name = document.data.get("name") or name
    if not isinstance(own_name, str) or not own_name:
        raise InputError(
            "does not say how the queue is called",
            path="name",
            hint="name it with -q as well, or add `name: h100` to the file",
            source=source,
        )
    rules = merge(chart_rules(), blocks[RULES].data)
    revision = revision_of((blocks[DEFAULTS].data, rules, blocks[IMPOSED].data))
    return _queue(own_name, revision, blocks)


def recorded(values: Mapping[str, Any]) -> Queue | None:
    """The queue that a run was made with, as it was then; None where it was made with none.

    Who used plain Helm may have recorded no more than the name: such a queue gives nothing.

    Args:
        values: those of the run's release.

    Raises:
        InputError: the record is damaged.
    """
    layout, record = values.get("layout") or {}, values.get("queueRef") or {}
    if layout.get("queue"):
        try:
            record = json.loads(layout["queue"])
        except (ValueError, TypeError):
            record = None
        if not isinstance(record, dict):
            raise InputError(
                "what the run has recorded of its queue cannot be read",
                path="layout.queue",
                hint="name its queue with -q",
            )
    if not record.get("name"):
        return None
    name = str(record["name"])
    blocks = {
        block: _as_block(load_yaml(json.dumps(record[block]), f"queue {name} {block}, as recorded"))
        if record.get(block)
        else QueueBlock({}, f"queue {name} {block}, as recorded")
        for block in BLOCKS
    }
    return _queue(name, str(record.get("revision") or ""), blocks)


def revision_of(blocks: Iterable[Mapping[str, Any]]) -> str:
    """The revision of a queue, as `charts/queue` computes it.

    Args:
        blocks: defaults, rules and imposed, in this order.
    """
    text = "---\n".join(f"{chart_yaml.text(block)}\n" for block in blocks)
    return hashlib.sha256(text.encode()).hexdigest()[:_REVISION_LENGTH]


def _queue(name: str, revision: str, blocks: Mapping[str, ValuesDocument]) -> Queue:
    imposed = blocks[IMPOSED]
    for key in _NOT_IMPOSED:
        if key in imposed.data:
            raise InputError(
                f"a queue may not impose `{key}`",
                path=f"{IMPOSED}.{key}",
                hint="remove it; rules.workloads says which workloads are allowed"
                if key == "workload"
                else "set it in defaults"
                if key == "preset"
                else "remove it",
                source=imposed.where((key,)),
            )
    marks = {"queueRef": {"name": name, "revision": revision}}
    return Queue(
        name=name,
        revision=revision,
        defaults=blocks[DEFAULTS],
        imposed=imposed,
        rules=QueueRules.of(blocks[RULES]),
        rules_document=blocks[RULES],
        marks=_as_block(load_yaml(json.dumps(marks), f"queue {name}")),
    )


def _block_of(text: Any, name: str, block: str, where: str) -> ValuesDocument:
    """A block that stands as text in a ConfigMap."""
    source = f"queue {name} {block}"
    if text is None or not str(text).strip() or str(text).strip() in ("{}", "null"):
        return QueueBlock({}, source)
    try:
        return _as_block(load_yaml(str(text), source))
    except InputError as error:
        raise _in_key(error, where, block) from error


def _in_key(error: InputError, where: str, block: str) -> InputError:
    """The error of a key of a ConfigMap, which names both."""
    problem = error.problem
    line = problem.source.rpartition(":")[2]
    place = f"{where}, key {block}.yaml" + (f":{line}" if line.isdigit() else "")
    return InputError(
        problem.message,
        path=problem.path,
        hint=f"{problem.hint}; whoever keeps the queue mends it with `helm upgrade`"
        if problem.hint
        else "whoever keeps the queue mends it with `helm upgrade`",
        source=place,
    )


def _part(document: ValuesDocument, block: str) -> ValuesDocument:
    """A block that is a mapping of a values file, with its lines there."""
    data = document.data.get(block)
    if data is None:
        return QueueBlock({}, document.source)
    if not isinstance(data, dict):
        raise InputError(
            "is no mapping of values",
            path=block,
            hint="write `key: value` lines below it",
            source=document.where((block,)),
        )
    return _as_block(document, data)


def _as_block(document: ValuesDocument, data: dict[str, Any] | None = None) -> ValuesDocument:
    whole = document.data if data is None else data
    _drop_nulls(whole)
    return QueueBlock(whole, document.source, document._lines, document._tokens)  # noqa: SLF001


def _drop_nulls(values: dict[str, Any]) -> None:
    """Leave out the nulls of mappings, as the chart does: a queue gives values and removes none."""
    for key in [key for key, value in values.items() if value is None]:
        del values[key]
    for value in values.values():
        if isinstance(value, dict):
            _drop_nulls(value)


def _config_map(text: bytes, source: str) -> Manifest | None:
    """The queue's ConfigMap in a stream of manifests; None where the text is no manifest.

    Raises:
        InputError: there are several, or none among other manifests, or nothing at all.
    """
    try:
        documents = [item for item in load_all(text, source) if item is not None]
    except InputError:
        return None  # the loader of values says what is wrong
    if not documents:
        raise InputError(
            "is empty, and a queue's file has defaults, rules or imposed",
            path="--queue-file",
            hint="write what the team's jobs share, such as `rules: {maxGpusPerJob: 16}`, or leave "
            "the flag out for no queue",
            source=source,
        )
    mappings = [item for item in documents if isinstance(item, dict)]
    manifests = [item for item in mappings if item.get("kind") and item.get("apiVersion")]
    if not manifests:
        return None
    maps = [item for item in manifests if item["kind"] == "ConfigMap" and _is_queue(item)]
    if len(maps) == 1:
        return maps[0]
    number = "several queues" if maps else "no queue"
    raise InputError(
        f"holds {number}: one ConfigMap with the label {names.QUEUE} is wanted",
        path="--queue-file",
        hint="name a file with one of them" if maps else "name the values file of charts/queue",
        source=source,
    )


def _is_queue(manifest: Manifest) -> bool:
    labels = (manifest.get("metadata") or {}).get("labels") or {}
    return names.QUEUE in labels


def _fits(value: Any, kind: type) -> bool:
    if kind is tuple:
        return isinstance(value, list) and all(isinstance(item, str) for item in value)
    if kind is bool:
        return isinstance(value, bool)
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


def _nearest_rule(key: str) -> str:
    # Imported only here: a miss may take a moment longer.
    from difflib import get_close_matches

    longer = [rule for rule in _RULE_NAMES if len(key) >= _CUT and rule.startswith(key)]
    near = longer or get_close_matches(key, _RULE_NAMES, n=1)
    every = ", ".join(_RULE_NAMES)
    return f"did you mean {near[0]}? The rules are {every}" if near else f"use one of {every}"


@dataclass(frozen=True, slots=True)
class Overridden:
    """A value of a person's that a queue's imposed one has replaced.

    Attributes:
        path: the values path.
        mine: what the person gave.
        theirs: what the queue imposes.
        mine_at: where the one stands.
        theirs_at: where the other stands.
    """

    path: tuple[str, ...]
    mine: Any
    theirs: Any
    mine_at: str
    theirs_at: str

    def __str__(self) -> str:
        """The sentence of a note."""
        mine, theirs = humanize.flow(self.mine), humanize.flow(self.theirs)
        return (
            f"{paths.show(self.path)}: {mine} ({self.mine_at}) gives way to {theirs}, which the "
            f"queue imposes ({self.theirs_at})"
        )


def overridden(
    user: Mapping[str, Any], imposed: Mapping[str, Any], path: Sequence[str] = ()
) -> list[tuple[tuple[str, ...], Any, Any]]:
    """The person's values that imposed ones replace: path, what was given, what is imposed.

    Args:
        user: the person's own values.
        imposed: the imposed ones.
        path: where both stand.
    """
    out: list[tuple[tuple[str, ...], Any, Any]] = []
    for key, value in imposed.items():
        if key not in user:
            continue
        here, mine = (*path, key), user[key]
        if isinstance(value, dict) and isinstance(mine, dict):
            out += overridden(mine, value, here)
        elif mine != value or isinstance(mine, bool) != isinstance(value, bool):
            out.append((here, mine, value))
    return out
