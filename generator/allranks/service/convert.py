"""Read files with other projects' objects, and convert those that are known."""

from __future__ import annotations

import codecs
import math
import re
import shlex
import textwrap
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import original, registry
from allranks.convert.chart_values import trials
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import documents_of
from allranks.convert.kinds import experiment, optimizationjob, torchrun, torchx_dump
from allranks.convert.reports import compare, conversion_report, losses, value_comments
from allranks.convert.slurm import job as slurm
from allranks.convert.verdicts import Beside
from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import plural
from allranks.k8s import namespaces
from allranks.k8s.fields import text
from allranks.k8s.object_names import is_dns_1123_label
from allranks.service import cluster_runtimes, foreign_charts
from allranks.values import files
from allranks.values.rules.names import nearest_name
from allranks.values.sources import CONVERTED, STDIN_NAME, Sources
from allranks.workspace import contents
from allranks.yamlio import comments, dump, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from allranks.cluster.interface import KubeClient
    from allranks.convert.documents.document import Document, Manifest
    from allranks.convert.verdicts import Comments, Conversion
    from allranks.workspace.contents import Contents

_SHEBANG = b"#!/bin/sh\n"
# What a file of shell is called; manifests are not.
_SHELL_ENDINGS = (".sh", ".bash", ".sbatch", ".slurm")


def convert(
    paths: tuple[str, ...],
    runtimes: tuple[str, ...] = (),
    namespace: str = "",
    entrypoint: tuple[str, ...] = (),
    chart: foreign_charts.ChartInput | None = None,
    *,
    words: tuple[str, ...] = (),
    lossy: bool = False,
    cluster: Callable[[], KubeClient | None] = lambda: None,
    watch: Callable[[str], None] = lambda _line: None,
) -> registry.Result:
    """The jobs of files, as values.

    Args:
        paths: files with manifests, charts, which helm renders, and batch scripts of Slurm; ``-``
            is standard input.
        runtimes: files with objects that the jobs name, such as a ClusterTrainingRuntime.
        namespace: the namespace to put them into; "" for their own.
        entrypoint: what an image runs whose container has no command.
        chart: with what charts are rendered; None for their defaults.
        words: what stands behind the name of a batch script, where one of the files is one.
        lossy: convert a batch script that waits for another job, too.
        cluster: makes the cluster that is asked for runtimes which are in no file; None for none.
            It is called where such a runtime is missing alone.
        watch: is told how far it is, in words.

    Raises:
        AllranksError: a file cannot be read, or has no job that can be converted, and all problems
            are in it; or helm refused a chart.
    """
    if sum(path.strip() == files.STDIN for path in (*paths, *runtimes)) > 1:
        raise InputError("standard input can be read once only", hint="name - once")
    _check_namespace(namespace)
    chart = chart or foreign_charts.ChartInput()
    scripts: list[Conversion] = []
    documents: list[Document] = []
    remarks: dict[str, Comments] = {}
    empty: list[Beside] = []
    chart.refuse_without(paths)
    for path in paths:
        source = _source(path)
        watch(f"reading {source}")
        if foreign_charts.is_chart(Path(path)):
            documents += foreign_charts.documents(path, chart, namespace)
            continue
        data = _read(path)
        if slurm.is_script(data):
            sent = _contents(path)
            run = slurm.convert(
                data, source, args=words, namespace=namespace, contents=sent, lossy=lossy
            )
            of_namespace = registry.namespace_notes(namespace, is_chosen=True)
            scripts.append(replace(run, notes=(*of_namespace, *run.notes)))
        elif source.endswith(_SHELL_ENDINGS):
            raise InputError(
                f"{source} is no batch script: it does not begin with #! and has no #SBATCH",
                hint="write #!/bin/bash into its first line, without which sbatch takes no script",
            )
        else:
            own_documents = [*_documents_of(data, source, remarks)]
            documents += own_documents
            if not own_documents:
                empty.append(Beside("the file", source, False, "it has no object"))
    if not documents and not scripts:
        raise InputError(
            "there is no object to convert", source=", ".join(own.name for own in empty)
        )
    if words and not scripts:
        raise InputError(
            "--words are those behind a batch script's name, and no file is one",
            hint="leave them out, or name the script",
        )
    runtime_documents: list[Document] = []
    for path in runtimes:
        runtime_documents += _documents_of(files.read(path), _source(path), remarks)
    references = cluster_runtimes.missing(documents, runtime_documents)
    if references and (kube_client := cluster()) is not None:
        runtime_documents += cluster_runtimes.read(kube_client, references, namespace)
    context = Context(
        runtimes=tuple(runtime_documents),
        namespace=namespace,
        entrypoint=entrypoint,
    )
    _check_sweeps(scripts)
    if scripts and not documents:
        return registry.Result(tuple(scripts), beside=tuple(empty))
    result = values_of(documents, context, watch)
    all_documents = (*documents, *runtime_documents)
    conversions = [_commented(own, all_documents, remarks) for own in result.conversions]
    beside = (*result.beside, *empty)
    return replace(result, conversions=(*scripts, *conversions), beside=beside)


def _check_namespace(namespace: str) -> None:
    """Refuse a chosen namespace that no cluster can have.

    Raises:
        InputError: it is none.
    """
    if namespace and not is_dns_1123_label(namespace):
        near = namespaces.nearest(namespace)
        raise InputError(
            f"-n {shlex.quote(namespace)} is no name of a namespace: it has lower-case letters, "
            f"digits and hyphens, at most {names.DNS_LABEL_MAX} of them",
            hint=f"write -n {near}" if near else "name another",
        )


def _commented(
    conversion: Conversion,
    documents: Sequence[Document],
    remarks: Mapping[str, Comments],
) -> Conversion:
    """A conversion with the comments of its object, and of the runtime that this is laid over."""
    own = conversion.runtime
    return replace(
        conversion,
        comments=_own_comments(conversion, documents, remarks),
        runtime=None if own is None else _commented(own, documents, remarks),
    )


def _own_comments(
    conversion: Conversion,
    documents: Iterable[Document],
    remarks: Mapping[str, Comments],
) -> Comments:
    """The comments of a file that are about one of its objects: the first has those above it."""
    of_file = remarks.get(conversion.source, {})
    starts = sorted(item.line for item in documents if item.source == conversion.source)
    first = 0 if starts[:1] == [conversion.line] else conversion.line
    end = next((start for start in starts if start > conversion.line), math.inf)
    return {line: comment for line, comment in of_file.items() if first <= line < end}


def values_of(
    documents: Iterable[Document],
    context: Context,
    watch: Callable[[str], None] = lambda _line: None,
) -> registry.Result:
    """The jobs among objects as values that `validate` takes.

    Args:
        documents: the objects.
        context: what else is known.
        watch: is told how far it is, in words.

    Raises:
        InputError: one of them cannot be converted; all problems are in it.
    """
    result = registry.convert_all(documents, context, watch)
    _check_sweeps(result.conversions)
    return result


def _check_sweeps(conversions: Iterable[Conversion]) -> None:
    """Refuse what `validate` would not take, with all problems.

    Raises:
        InvalidValues: there are some.
    """
    if problems := [problem for conversion in conversions for problem in _problems(conversion)]:
        raise InvalidValues(problems)


def _problems(conversion: Conversion) -> tuple[Problem, ...]:
    """The problems that `validate` finds in a sweep's values once its parameters are put in.

    All other values are settled by their converters, with the rules that `validate` has.
    """
    is_sweep = conversion.values.get("workload") == trials.SWEEP
    if not is_sweep or not trials.reached(conversion.values):
        return ()
    from allranks.service import prepare

    line = f":{conversion.line}" if conversion.line else ""
    try:
        prepare.prepare(as_sources(conversion), release=conversion.name, by_helm=False)
    except InvalidValues as error:
        problems = error.problems
    except InputError as error:
        problems = (error.problem,)
    else:
        return ()
    return tuple(
        Problem(
            f"{conversion.kind} {conversion.name}",
            "the values made from it are not those of a valid sweep: "
            f"{problem.path}: {problem.message}",
            problem.hint,
            f"{conversion.source}{line}",
        )
        for problem in problems
    )


def _contents(path: str) -> Contents | None:
    """What is sent with a script of the folder that a person stands in; None where it is not there.

    Args:
        path: the script; ``-`` is standard input, of a script that may be from anywhere.
    """
    try:
        here = Path.cwd().resolve()
        is_below = path.strip() != files.STDIN and Path(path).resolve().is_relative_to(here)
    except OSError:
        return None  # the folder is gone
    return contents.of(here) if is_below else None


def script(
    path: str,
    words: tuple[str, ...] = (),
    args: tuple[str, ...] = (),
    namespace: str = "",
    *,
    workspace: Path | None = None,
    include: tuple[str, ...] = (),
    lossy: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Conversion:
    """A batch script of Slurm as values.

    Args:
        path: the script; ``-`` is standard input; "" for none, where ``words`` have ``--wrap``.
        words: options of sbatch's, which win over the script's directives.
        args: words behind the script's name.
        namespace: the namespace of the run; "" for none.
        workspace: the folder that is sent with it; None where that is not known.
        include: paths of that folder which go whatever a rule says.
        lossy: convert one that waits for another job, too.
        environment: the variables of who submits, of which sbatch reads some; None for none.

    Raises:
        InputError: it cannot be read, sbatch would not take it, or it cannot be a run; every
            problem is in it.
    """
    source = _source(path) or "--wrap"
    data = files.read(path) if path else _SHEBANG
    if data.strip() and not data.removeprefix(codecs.BOM_UTF8).startswith(b"#!"):
        raise InputError(
            f"{source} does not look like a batch script: it does not begin with #!",
            hint="write #!/bin/bash into its first line; values of a manifest are made by "
            f"`{names.CLI} convert`",
        )
    conversion = slurm.convert(
        data,
        source,
        words=words,
        args=args,
        namespace=namespace,
        contents=contents.of(workspace, include) if workspace is not None else None,
        lossy=lossy,
        is_submitted=True,
        environment=environment,
    )
    _check_sweeps((conversion,))
    return conversion


def as_sources(conversion: Conversion) -> Sources:
    """A conversion as values that another command takes."""
    from allranks.values.sources import Sources

    name = f"{conversion.source}{CONVERTED}"
    return Sources(files=(name,), contents={name: dump.dump(conversion.values).encode()})


def _documents_of(data: bytes, source: str, remarks: dict[str, Comments]) -> Iterator[Document]:
    """The objects of a file, whose comments are put beside those of others."""
    yield from documents_of(load.load_objects(data, source))
    remarks[source] = comments.comments_of(data.decode("utf-8-sig"))


def _source(path: str) -> str:
    """What a file is called in messages."""
    return STDIN_NAME if path.strip() == files.STDIN else path


def _read(path: str) -> bytes:
    """The content of a file that is no chart; of what TorchX prints, the application alone.

    Raises:
        InputError: it cannot be read, or is compressed.
    """
    data = files.read(path)
    if data.startswith(foreign_charts.GZIP):
        is_stdin = path.strip() == files.STDIN
        raise InputError(
            f"{STDIN_NAME if is_stdin else path} is compressed with gzip, and no chart's archive",
            hint="name the file of a chart's archive, or pipe in what `gunzip` makes of a manifest"
            if is_stdin
            else f"`gunzip -c {shlex.quote(path)} | {names.CLI} convert -`",
        )
    application = torchx_dump.application(data.decode(errors="surrogateescape"))
    return data if application is None else application.encode(errors="surrogateescape")


def values_file(conversion: Conversion) -> str:
    """A conversion as a values file: behind each value the field that it was made of.

    Args:
        conversion: the conversion.
    """
    use = "" if "workload" in conversion.values else " for charts/queue,"
    head = [f"Values{use} made of {conversion.kind} {conversion.name}"]
    if conversion.source:
        head[0] += f" ({conversion.source}:{conversion.line})" if conversion.line else ""
    head[0] += "."
    for own in filter(None, (conversion, conversion.runtime)):
        head += conversion_report.lost_lines(own)
    head += conversion.notes
    plain = _MANY_NUMBERS.sub(_in_rows, dump.dump(conversion.values))
    text, homeless = value_comments.annotated(plain, conversion)
    whole = _with_head([*head, *([_HOMELESS, *homeless] if homeless else [])], text)
    if len(whole.encode()) <= load.MAX_BYTES:
        return whole
    return _with_head([*head, _TOO_MANY_COMMENTS], plain)


def _with_head(head: Iterable[str], text: str) -> str:
    """A values file with comments at its head."""
    return "".join(f"# {value_comments.comment(line)}\n" for line in head) + text


_TOO_MANY_COMMENTS = (
    f"The comments of its file are left out: with them these values have more than "
    f"{load.MAX_BYTES >> 20} MiB, which is the most that values may have."
)
_HOMELESS = "Comments on what no value has:"
# A key with more numbers than anybody reads one below the other, such as all exit codes.
_MANY_NUMBERS = re.compile(r"^( *)([A-Za-z]+):\n((?:\1- \d+\n){9,})", re.MULTILINE)


def _in_rows(match: re.Match[str]) -> str:
    """The same numbers in rows."""
    indent, key = match[1], match[2]
    numbers = ", ".join(re.findall(r"\d+", match[3]))
    rows = textwrap.fill(numbers, 90, initial_indent=f"{indent}  ", subsequent_indent=f"{indent}  ")
    return f"{indent}{key}: [\n{rows}\n{indent}]\n"


@dataclass(frozen=True, slots=True)
class PodComparison:
    """The differences between the pods of a release and those of an object's own controller.

    Attributes:
        kind: the object's kind.
        name: its name.
        pods: how many pods its controller makes.
        differences: what differs, pods of one role after the other.
        losses: what a conversion of the object loses, and the values do not have either.
        notes: what is not compared, as sentences.
    """

    kind: str
    name: str
    pods: int
    differences: tuple[compare.Difference, ...]
    losses: tuple[losses.Loss, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def is_same(self) -> bool:
        """Whether the release runs what the object's controller runs, as far as is known here."""
        return not self.differences and not self.losses


_ORIGIN_LINE = re.compile(r"# Values.* made of (\S+) (\S+?)(?: \(.*:([0-9]+)\))?\.?$")


def _origin_jobs(values: str, jobs: list[Document]) -> list[Document]:
    """The job that a values file says in its first line that it was made of; [] for none."""
    try:
        with Path(values).open(encoding="utf-8") as file:
            match = _ORIGIN_LINE.match(file.readline())
    except (OSError, UnicodeDecodeError):
        return []  # what cannot be read is said where the values are
    if match is None:
        return []
    limit = names.HELM_RELEASE_NAME_MAX
    namesakes = [
        job
        for job in jobs
        if job.kind == match[1] and match[2] in (job.name, nearest_name(job.name, limit))
    ]
    of_line = [job for job in namesakes if match[3] and job.line == int(match[3])]
    return of_line if len(namesakes) > 1 and of_line else namesakes


# Searches, whose jobs are those of their trials: by kind, what makes the job of one.
_SEARCHES: dict[str, Callable[[Manifest, Context], Manifest]] = {
    "Experiment": experiment.trial,
    optimizationjob.KIND: optimizationjob.trial,
}
_OF_TRIAL = (
    "the pods of a trial are compared, with the names of parameters for their values: what is "
    "searched, and what a trial is judged by, is no part of a pod"
)


def check(
    values: str,
    paths: tuple[str, ...],
    namespace: str = "",
    chart: foreign_charts.ChartInput | None = None,
    entrypoint: tuple[str, ...] = (),
) -> PodComparison:
    """Compare the release of a values file with the pods that an object's own controller makes.

    Args:
        values: the values file.
        paths: files with manifests, and charts, with exactly one job; ``-`` is standard input.
        namespace: the namespace; "" for the object's own.
        chart: with what charts are rendered, and the helm to use; None for the defaults.
        entrypoint: what the image runs where a container has no command; () for unknown.

    Raises:
        InputError: there is no such job, or nobody knows its controller's pods.
    """
    _check_namespace(namespace)
    if values.strip() in (files.STDIN, "/dev/stdin"):
        raise InputError(
            "--check reads its values more than once, and standard input can be read once",
            hint="write them into a file, and name that",
        )
    chart = chart or foreign_charts.ChartInput()
    chart.refuse_without(paths)
    documents: list[Document] = []
    for path in paths:
        if foreign_charts.is_chart(Path(path)):
            documents += foreign_charts.documents(path, chart, namespace)
            continue
        source, data = _source(path), _read(path)
        if slurm.is_script(data):
            raise InputError(
                f"{source} is a batch script, of which no controller makes pods: there is nothing "
                "to compare with",
                hint="`allranks render` shows the pods of its values",
            )
        documents += documents_of(load.load_objects(data, source))
    document = _checked_job(values, paths, documents)
    context = Context(documents=tuple(documents), namespace=namespace, entrypoint=entrypoint)
    is_search, job = document.kind in _SEARCHES, document.data
    if is_search:
        own_context = context.seen_from(document)
        job = trials.without_search(_SEARCHES[document.kind](job, own_context))
    try:
        theirs = original.pods(job, [item.data for item in documents])
    except InputError as error:
        raise InputError(
            error.problem.message, source=document.where, hint=error.problem.hint
        ) from error
    if theirs is None:
        known_kinds = (kind for _, kind in original.ORIGINALS)
        raise InputError(
            f"the pods that are made of a kind {job.get('kind')} are not known here",
            path="kind",
            source=document.where,
            hint="give one of " + ", ".join(sorted({*_SEARCHES, *known_kinds})),
        )
    release = nearest_name(document.name, names.HELM_RELEASE_NAME_MAX)
    namespace = next(filter(is_dns_1123_label, (namespace, document.namespace)), "default")

    def objects_of(own: Sources) -> list[Manifest]:
        return _rendered(own, release, namespace, chart.helm)

    own_values = load.load(files.read_text(values), values).data
    sources = Sources((values,))
    if is_search:
        sources = _as_sources(values, trials.as_job(own_values))
    objects = objects_of(sources)
    differences = compare.differences(theirs, objects, entrypoint)
    notes = [_OF_TRIAL] if is_search else []
    try:
        conversion = registry.convert_document(document, context)
    except InputError as error:
        reason = f"{error.problem.path}: {error.problem.message}".removeprefix(": ")
        notes.append(f"what a conversion loses is not known: convert does not take it: {reason}")
        differences += compare.setups("", text(own_values, "setup"))
        return PodComparison(
            document.kind, document.name, len(theirs), tuple(differences), notes=tuple(notes)
        )
    differences += compare.setups(text(conversion.values, "setup"), text(own_values, "setup"))
    settings: frozenset[str] = frozenset()
    if conversion.lost and conversion.values != own_values:
        converted = trials.as_job(conversion.values) if is_search else conversion.values
        settings = compare.changed_settings(objects_of(_as_sources(CONVERTED, converted)), objects)
        if conversion.values.get("setup") != own_values.get("setup"):
            settings |= {"setup"}
    return PodComparison(
        document.kind,
        document.name,
        len(theirs),
        tuple(differences),
        tuple(
            losses.remaining(
                conversion,
                losses.Changes(own_values, settings),
                {item.setting for item in differences},
            )
        ),
        tuple(notes),
    )


def _rendered(sources: Sources, release: str, namespace: str, helm: str) -> list[Manifest]:
    """The objects of a release."""
    from allranks.helm import binary
    from allranks.service import prepare, render

    prepared = prepare.prepare(sources, release=release, namespace=namespace)
    rendered = render.manifests(prepared, binary.find(helm or None), release, namespace)
    return [item for item in load.load_all(rendered) if isinstance(item, dict)]


def _as_sources(name: str, values: Mapping[str, Any]) -> Sources:
    """Values as a file of a name."""
    return Sources((name,), contents={name: dump.dump(values).encode()})


def _checked_job(values: str, paths: tuple[str, ...], documents: list[Document]) -> Document:
    """The job among objects that a values file is compared with."""
    candidates = [document for document in documents if registry.is_job(document)]
    jobs = [document for document in candidates if document.kind not in torchrun.QUEUE_KINDS]
    candidates = jobs or candidates  # a queue beside its job says something of the job's pods
    if len(candidates) > 1:
        candidates = _origin_jobs(values, candidates) or candidates
    if len(candidates) != 1:
        count = plural(len(candidates), "job") if candidates else "no job"
        raise InputError(
            f"{', '.join(paths)} has {count}, and --check compares one",
            hint="give the manifest of the job that the values were made of",
        )
    return candidates[0]
