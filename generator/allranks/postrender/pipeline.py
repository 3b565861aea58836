"""Post-render a stream: read the objects that may change, apply the passes, print them.

Most documents of most charts need no pass, and text alone shows it: those are never parsed, and
leave as the slices they came in. Only a document that a pass has changed is printed anew.
"""

from __future__ import annotations

from allranks import __version__, names
from allranks.postrender import requests, workloads
from allranks.postrender.edit import Edit
from allranks.postrender.options import DEFAULTS
from allranks.postrender.passes import (
    fabric,
    labels,
    placement,
    provenance,
    scheduling,
    security,
    sentinel,
)
from allranks.postrender.stream import BREAKS, StreamDocument, split

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Collection
    from typing import Any

    from allranks.postrender.options import PostrenderOptions
    from allranks.postrender.requests import Scheduling
    from allranks.postrender.workloads import Workload

# Where a document stands, in messages.
SOURCE = "stdin"
_POD_GROUP = "PodGroup"
# Helm 3 says in such a comment which template a document came from.
_SOURCE = "# Source: "
# Substrings of every kind that makes pods, and of the List that may hold them.
_KIND_WORDS = ("Job", "Set", "Pod", "Deployment", "List")
_REQUESTS = (names.SCHEDULING, names.PLACEMENT, names.FABRIC)
# What makes us read a document that no option is about.
_MARKS = (*_REQUESTS, names.SENTINEL_KIND)
_LINE = "\n"
# A key with nothing, or with a scalar that ends on its line and means no more than it shows.
_YAML_ENTRY = r"""(?P<indent>[ ]*)(?P<key>[A-Za-z0-9./_-]+):(?:[ ](?P<value>
        [A-Za-z0-9][A-Za-z0-9./_+-]*(?::[A-Za-z0-9./_+-]+)*
        | "[^"\\]*"
        | '[^']*'
    ))?[ ]*"""
_DIGEST = names.VALUES_DIGEST
# Objects of these the passes treat as a whole, or not at all.
_NOT_SIMPLE = (names.HELM_HOOK, names.GENERATOR_VERSION, "\nmetadata: ", "\t", "\r")


def process(
    text: str, options: PostrenderOptions = DEFAULTS, note: Callable[[str], None] | None = None
) -> str:
    """Post-render a manifest stream.

    Args:
        text: the stream, as Helm gives it.
        options: what is asked of every object, besides their own annotations.
        note: takes a line for a person about each thing that was asked and not written.

    Returns:
        The stream with the passes applied; a document that no pass changes stands in it exactly
        as it came. Never empty, unless the input is.

    Raises:
        InputError: the stream is not YAML where it has to be read, or asks what cannot be done.
    """
    if names.VALUES_DIGEST not in text and not _may_change(text, options):
        if note is not None:
            for line in _unmatched_message(options, frozenset(), frozenset()):
                note(line)
        return text
    run = _Run(split(text), options)
    result = run.process()
    if note is not None:
        for line in (*run.notes, *_unmatched_message(options, run.kinds, run.object_names)):
            note(line)
    return result


def _unmatched_message(
    options: PostrenderOptions, kinds: Collection[str], object_names: Collection[str]
) -> tuple[str, ...]:
    """The message where --kind and --name match no object of the options.

    Args:
        options: the options.
        kinds: the kinds of the objects that could change and that the options are for.
        object_names: their names.
    """
    if not (options.touches_workloads or options.touches_everything):
        return ()
    subject = "no object that these options can change"
    if not options.names:
        missing = [kind for kind in options.kinds if kind not in kinds]
        return tuple(f"--kind {kind}: {subject} is of that kind" for kind in missing)
    of_kind = " and of that --kind" if options.kinds else ""
    missing = [name for name in options.names if name not in object_names]
    return tuple(f"--name {name}: {subject} is of that name{of_kind}" for name in missing)


def _may_change(text: str, options: PostrenderOptions) -> bool:
    """Whether a pass may change a text; escapes in names are not decoded.

    The digest of the values is not looked for: it asks only for our version beside it.
    """
    if options.touches_everything or any(mark in text for mark in _MARKS):
        return True
    return options.touches_workloads and any(word in text for word in _KIND_WORDS)


class _Run:
    """One run over a stream: its documents and results."""

    def __init__(self, documents: list[StreamDocument], options: PostrenderOptions) -> None:
        self._documents = documents
        self._options = options
        self._requests: set[str] = set()
        self._sentinels: list[Edit] = []
        self._groups: dict[tuple[str, str, str], dict[str, Any]] | None = None
        self._shared: list[tuple[Workload, Scheduling]] = []
        self.notes: list[str] = []
        # Of the objects that the options are for and that may change.
        self.kinds: set[str] = set()
        self.object_names: set[str] = set()

    def process(self) -> str:
        pieces: list[str] = []
        for document in self._documents:
            body = document.body
            if _may_change(body, self._options):
                pieces += self._document(document)
            elif names.VALUES_DIGEST not in body:
                pieces.append(document.text)
            elif (stamped := stamp(body)) is not None:
                pieces += [document.lead, stamped, document.tail]
            else:
                pieces += self._document(document)
        if self._shared:
            from allranks.postrender.passes.scheduling import gang

            gang.check_shared(self._shared)
        if self._sentinels:
            _check_sentinels(self._sentinels, self._requests, "".join(pieces))
        return "".join(pieces)

    def _document(self, document: StreamDocument) -> list[str]:
        """The resulting texts of a document."""
        manifest = _load(document)
        if not isinstance(manifest, dict):
            return [document.text]
        edit = Edit(manifest, _where(document, manifest))
        if sentinel.is_sentinel(edit):
            self._sentinels.append(edit)
            return [document.tail] if "%" in document.tail else []
        added: list[dict[str, Any]] = []
        if _is_list(manifest):
            for index, item in enumerate(edit.items(("items",))):
                if isinstance(item, dict):
                    inside = Edit(item, f"{_where(document, item)}, items[{index}]")
                    added += self._object(inside)
                    edit.changed |= inside.changed
        else:
            added = self._object(edit)
        if not edit.changed and not added:
            return [document.text]
        return _print(document, manifest if edit.changed else None, added)

    def _object(self, edit: Edit) -> list[dict[str, Any]]:
        """Run the passes over one object.

        Returns:
            The objects it needs beside it.
        """
        if workloads.is_hook(edit.manifest):
            return []
        kind = str(edit.manifest.get("kind"))
        options = self._options
        name = workloads.name_of(edit.manifest)
        workload = workloads.workload(edit)
        if not options.selects(kind, name):
            options = DEFAULTS
        elif workload is not None or options.touches_everything:
            self.kinds.add(kind)
            self.object_names.add(name)
        added: list[dict[str, Any]] = []
        labels.apply(edit, workload, options)
        if workload is not None:
            self._note_requests(edit)
            ask = requests.scheduling(edit, options)
            if ask is not None:
                placement.apply(workload, ask)
                added = [
                    group
                    for group in scheduling.apply(workload, ask)
                    if self._is_new(group, workload, ask)
                ]
                if ask.gang_name:
                    self._shared.append((workload, ask))
            fabric.apply(workload, requests.fabric(edit, options))
            if options.restricted:
                security.apply(workload)
        provenance.apply(edit, options)
        for manifest in added:
            provenance.apply(Edit(manifest), options)
        self.notes += edit.notes
        return added

    def _note_requests(self, edit: Edit) -> None:
        annotations = edit.get(("metadata", "annotations"))
        if isinstance(annotations, dict):
            self._requests.update(key for key in _REQUESTS if key in annotations)

    def _is_new(self, manifest: dict[str, Any], workload: Workload, ask: Scheduling) -> bool:
        """Whether the stream has no such PodGroup yet; on a second run it has.

        Raises:
            InputError: it has, and that says something else than is asked.
        """
        if self._groups is None:
            self._groups = {}
            for document in self._documents:
                if _POD_GROUP in document.body:
                    for document_object in _objects(_load(document)):
                        if document_object.get("kind") == _POD_GROUP:
                            self._groups[_identity(document_object)] = document_object
        identity = _identity(manifest)
        first = self._groups.setdefault(identity, manifest)
        if first is manifest:
            return True
        from allranks.postrender.passes.scheduling import gang

        gang.check_existing(workload, ask, manifest["spec"], first.get("spec"))
        return False


def _load(document: StreamDocument) -> Any:
    """The one value of a document.

    Raises:
        InputError: it is not YAML; the error names the line of the stream.
    """
    from allranks.errors import InputError
    from allranks.yamlio import load

    try:
        values = load.load_all(document.source, SOURCE)
    except InputError:
        # Once more, with the document where it stands in the stream, for the line in the message.
        above = document.line - 1 - document.directives.count("\n")
        load.load_all("\n" * max(above, 0) + document.source, SOURCE)
        raise
    return values[0] if values else None


def _print(
    document: StreamDocument, manifest: dict[str, Any] | None, added: list[dict[str, Any]]
) -> list[str]:
    """The texts of a changed document, and of the objects it needs in front of it."""
    from allranks.yamlio.dump import dump

    comments = document.comments
    marked = document.lead.endswith("---")
    if marked and not comments.endswith(BREAKS):
        # The content began on the marker's own line.
        comments += "\n"
    body = document.body if manifest is None else comments + dump(manifest)
    if not added:
        return [document.lead, body, document.tail]
    # What follows another document needs a marker, which the first of a stream may not have.
    pieces = [document.lead.removesuffix("---")]
    sources = "".join(line for line in comments.splitlines(keepends=True) if _SOURCE in line)
    for edit in added:
        pieces += ["---\n", sources, dump(edit)]
    return [*pieces, "---" if marked else "---\n", body, document.tail]


def _where(document: StreamDocument, manifest: dict[str, Any]) -> str:
    kind, name = manifest.get("kind", "document"), workloads.name_of(manifest)
    return f'{SOURCE}:{document.line}, {kind} "{name}"' if name else f"{SOURCE}:{document.line}"


def _is_list(manifest: dict[str, Any]) -> bool:
    return manifest.get("kind") == "List" and isinstance(manifest.get("items"), list)


def _objects(value: Any) -> list[dict[str, Any]]:
    if not isinstance(value, dict):
        return []
    items = value["items"] if _is_list(value) else [value]
    return [item for item in items if isinstance(item, dict)]


def _identity(manifest: dict[str, Any]) -> tuple[str, str, str]:
    namespace = (manifest.get("metadata") or {}).get("namespace") or ""
    return workloads.group_of(manifest), str(namespace), workloads.name_of(manifest)


def _check_sentinels(edits: list[Edit], requests: set[str], output: str) -> None:
    """Check that the sentinels were rightly removed.

    Args:
        edits: the sentinels that were taken out.
        requests: the annotations by which objects of the stream asked for something.
        output: what is left of the stream.

    Raises:
        InputError: a sentinel requires what no object asks for, or nothing is left: Helm 3 would
            take an empty release for a good one and, on an upgrade, delete everything.
    """
    for edit in edits:
        for name in sentinel.requirements(edit):
            if sentinel.REQUIREMENTS[name] not in requests:
                edit.refuse(
                    ("requires",),
                    f"{name!r} is required, but no object carries {sentinel.REQUIREMENTS[name]!r}",
                    "keep the annotations that the chart writes",
                )
        if not requests:
            edit.refuse(
                (),
                f"the chart asks for the post-renderer, but no object says what for: "
                f"none carries {names.SCHEDULING}, {names.PLACEMENT} or {names.FABRIC}",
                "keep the annotations that the chart writes",
            )
    if not any(document.has_content for document in split(output)):
        edits[0].refuse((), f"there is nothing in the stream but {names.SENTINEL_KIND}")


def stamp(body: str) -> str | None:
    """Add our version after the digest of the values.

    Args:
        body: a document, from behind its marker on.

    Returns:
        The document with the line added; None where only a parser can tell where it belongs.
    """
    if any(mark in body for mark in _NOT_SIMPLE) or body.count("\nmetadata:") != 1:
        return None
    lines = body.split(_LINE)
    at = _digest_line(lines)
    if at is None:
        return None
    indent = lines[at][: -len(lines[at].lstrip(" "))]
    if at + 1 < len(lines) and lines[at + 1].startswith(f"{indent} "):
        return None
    lines.insert(at + 1, f'{indent}{names.GENERATOR_VERSION}: "{__version__}"')
    return _LINE.join(lines)


def _digest_line(lines: list[str]) -> int | None:
    """The line of ``metadata.annotations[digest]``; None where a line before it is not simple."""
    # The keys that lead to the line, and the indentation of each.
    path: list[tuple[int, str]] = []
    import re

    pattern = re.compile(_YAML_ENTRY, re.VERBOSE | re.ASCII)
    for index, line in enumerate(lines):
        if not line or line.startswith("#"):
            continue
        entry = pattern.fullmatch(line)
        if entry is None:
            return None
        indent, key, value = len(entry["indent"]), entry["key"], entry["value"]
        while path and path[-1][0] >= indent:
            path.pop()
        if not path and (indent or (key == "kind" and value == "List")):
            return None
        path.append((indent, key))
        if key == _DIGEST and value:
            keys = [name for _, name in path]
            return index if keys == ["metadata", "annotations", _DIGEST] else None
    return None
