"""What a person asked for, from whatever they wrote it in: one form for all that follows.

A sweep is asked for in two ways. Either its values say so (``workload: sweep``), or a chart and its
own values are named, and the sweep is made of flags: ``helm sweep s charts/torchrun -f v.yaml
--set-range lr=1e-5,1e-4``. In the second way a file may have a `sweep` section, too; the chart
itself never sees it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.errors import InputError, InvalidValues
from allranks.schema import paths
from allranks.schema.validate import located as schema_problems
from allranks.sweep.values import foreign, forms, over, places
from allranks.values import files
from allranks.values import sources as gathering
from allranks.values.merge import overlay
from allranks.values.resolve import typed
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Parameter
    from allranks.values.sources import Flag, Loaded
    from allranks.yamlio.document import Document

SECTION = "sweep"
_OWN: ValuesPath = (SECTION, "trial", "values")
# What is about the whole sweep, and not about its trials.
_VALUES_FILES = (".yaml", ".yml", ".json")
_WHOLE = ("workload", "preset", "layout", SECTION)


@dataclass(frozen=True, slots=True)
class Request:
    """A sweep as it is asked for on the command line.

    Attributes:
        name: the sweep's name.
        sources: the values files and flags.
        chart: what was named as the chart: one of our workloads, a folder or a reference; "" where
            the values say ``workload: sweep``.
        ranges: the texts of ``--set-range``: ``lr=1e-5,1e-4`` or ``seed=1..10``.
        overs: the texts of ``--over``: ``learning=lr.yaml``, see `over`.
        section: what flags say of the sweep, over what the values say: ``{"trials": 40}``.
        flags: by the path in the section, the flag that gave it: ``{"trials": "--trials 40"}``.
        namespace: where its releases are to be; "" where it does not matter.
        helm: the helm that a person named; "" for the one that is found.
        parallel: how many trials run at a time where nothing says so; 0 is all of them.
        is_local: its trials run on this machine.
        release: the name of the one release that holds all of it, where plain Helm is to run it.
        loaded: its values, where they were read before: standard input is read once only.
        check_only: it is judged and not run: nothing is fetched, and nothing is said of its run.
    """

    name: str
    sources: Sources
    chart: str = ""
    ranges: tuple[str, ...] = ()
    overs: tuple[str, ...] = ()
    section: Mapping[str, Any] = field(default_factory=dict)
    flags: Mapping[str, str] = field(default_factory=dict)
    namespace: str = ""
    helm: str = ""
    parallel: int = 0
    is_local: bool = False
    release: str = ""
    loaded: Loaded | None = None
    check_only: bool = False


@dataclass(frozen=True, slots=True)
class Asked:
    """The same in one form.

    Attributes:
        section: what stands under `sweep`, the flags included.
        shared: the values that all trials have, as they were typed.
        workload: the chart of ours that a trial is a release of; "" for a foreign chart, and where
            a trial is one pod that runs its command.
        chart: the foreign chart's folder or reference; "" for ours.
        more: the parameters that flags gave.
        shorthand: the names of those of ``--set-range``.
        token: how the scalar at a path was written.
        where: where a path of the section, or of the whole values, was written.
        trial_where: where a path of a trial's values was written.
        trial_path: the path there of a path of a trial's values.
    """

    section: dict[str, Any]
    shared: dict[str, Any]
    workload: str
    chart: str
    token: Callable[[ValuesPath], str | None]
    where: Callable[[ValuesPath], str]
    trial_where: Callable[[ValuesPath], str]
    trial_path: Callable[[ValuesPath], ValuesPath]
    more: tuple[Parameter, ...] = ()
    shorthand: tuple[str, ...] = ()


def ask(request: Request) -> Asked:
    """Read all sources.

    Raises:
        InputError: a source cannot be read, is wrong, or the chart is not there.
    """
    own, chart = _chart(request.chart)
    given = _of_values(request) if own == SECTION else _of_chart(request, own, chart)
    ranges = [forms.flag(text) for text in request.ranges]
    overs = [over.flag(text, given.workload) for text in request.overs]
    flagged = (*ranges, *overs)
    twice = [name for name, count in Counter(item.name for item in flagged).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]} is given by two flags", hint="keep one of the two")
    named = {
        item.name: f"{option} {text}"
        for option, texts, found in (
            ("--set-range", request.ranges, ranges),
            (over.FLAG, request.overs, overs),
        )
        for text, item in zip(texts, found, strict=True)
    }

    def where(path: ValuesPath) -> str:
        flag = ""
        if path[:2] == (SECTION, "parameters"):
            flag = named.get(str(path[2]), "") if len(path) > 2 else ""  # noqa: PLR2004 - its name
        elif path[:1] == (SECTION,):
            flag = request.flags.get(paths.show(path[1:]), "")
        return flag or given.where(path)

    def trial_where(path: ValuesPath) -> str:
        return named.get(paths.show(path), "") or given.trial_where(path)

    return replace(
        given,
        section=overlay(given.section, request.section),
        where=where,
        trial_where=trial_where,
        more=flagged,
        # A list of plain values in a file is what --set-range would write.
        shorthand=tuple(item.name for item in flagged if not item.overlays),
    )


def _chart(named: str) -> tuple[str, str]:
    """Which workload of ours a chart is, or which foreign one."""
    if named in ("", SECTION):
        return SECTION, ""
    if named in names.WORKLOADS:
        return named, ""
    folder = Path(named)
    if folder.suffix in _VALUES_FILES and (folder.is_file() or not folder.exists()):
        raise InputError(
            f"{named} is a values file, and no chart",
            hint=f"give it with -f: `{names.CLI} sweep run NAME -f {named}`",
        )
    if folder.is_dir() and folder.resolve().parent == resources.folder("charts").resolve():
        found = folder.resolve().name
        if found in names.WORKLOADS:
            return found, ""
    return "", foreign.absolute(named, Path.cwd())


def _of_values(request: Request) -> Asked:
    """A sweep whose values say that they are one."""
    if request.loaded is None and not request.sources.files and not request.sources.sets:
        raise InputError(
            "nothing says what to run",
            hint=f"give a values file, as `{names.CLI} init sweep` writes one, "
            f"or name a chart: `{names.CLI} sweep run {request.name} CHART -f values.yaml …`",
        )
    loaded = request.loaded or gathering.load(request.sources)
    if loaded.workload != SECTION:
        raise InputError(
            f"the values are for the workload {loaded.workload}, not for a sweep",
            path="workload",
            hint=f"name the chart: `{names.CLI} sweep run {request.name} {loaded.workload} …`, or "
            "write `workload: sweep`",
            source=loaded.where(("workload",)),
        )
    _check_shape(loaded)
    section = loaded.values[SECTION]
    trial = section.get("trial") or {}
    workload, named = str(trial.get("workload") or ""), str(trial.get("chart") or "")
    folder = _folder(loaded.where((SECTION, "trial", "chart")))
    chart = foreign.absolute(named, folder) if named else ""
    base = {} if chart else {k: v for k, v in loaded.user.items() if k not in _WHOLE}
    layers, filed = _trial_file(trial, loaded.where((SECTION, "trial", "file")), workload)
    own = trial.get("values")
    shared = overlay(overlay(base, filed), own if isinstance(own, dict) else {})

    def trial_path(path: ValuesPath) -> ValuesPath:
        return (*_OWN, *path) if places.get(own, path) is not places.MISSING else path

    def trial_where(path: ValuesPath) -> str:
        if trial_path(path) != path:
            return loaded.where(trial_path(path))
        in_file = bool(layers) and places.get(filed, path) is not places.MISSING
        return gathering.find(layers, path) if in_file else loaded.where(path)

    return Asked(
        section=section,
        shared=shared,
        workload=workload,
        chart=chart,
        token=loaded.token,
        where=loaded.where,
        trial_where=trial_where,
        trial_path=trial_path,
    )


def _check_shape(loaded: Loaded) -> None:
    """Refuse what the sweep's schema refuses; trials are judged by the rules of their own chart."""
    trial = places.get(loaded.values, (SECTION, "trial"))
    values = loaded.values
    if isinstance(trial, dict) and isinstance(trial.get("values"), dict):
        section = {**values[SECTION], "trial": {**trial, "values": {}}}
        values = {**values, SECTION: section}
    refused = schema_problems(SECTION, values, loaded.where, typed(loaded.where))
    if refused:
        raise InvalidValues([problem for _, problem in refused])


def _of_chart(request: Request, workload: str, chart: str) -> Asked:
    """A chart and its own values."""
    if workload:
        loaded = gathering.load(request.sources, workload)
        layers, user = loaded.layers, loaded.user
    else:
        layers, user = gathering.read(request.sources)
    section = user.get(SECTION)
    if not isinstance(section, dict | None):
        raise InputError(
            "must be a mapping", path=SECTION, source=gathering.find(layers, (SECTION,))
        )

    def where(path: ValuesPath) -> str:
        return gathering.find(layers, path)

    own = _WHOLE if workload else (SECTION,)
    shared = {key: value for key, value in user.items() if key not in own}
    base = gathering.defaults(SECTION)[SECTION]
    return Asked(
        section=overlay(base, section or {}),
        shared=shared,
        workload=workload,
        chart=chart,
        token=_token(layers),
        where=where,
        trial_where=where,
        trial_path=lambda path: path,
    )


def _token(layers: tuple[Document | Flag, ...]) -> Callable[[ValuesPath], str | None]:
    loaded = gathering.Loaded("", {}, {}, layers=layers)
    return loaded.token


def _trial_file(
    trial: Mapping[str, Any], source: str, workload: str
) -> tuple[tuple[Document | Flag, ...], dict[str, Any]]:
    """The layers and the values of `sweep.trial.file`; a relative name is beside who names it."""
    name = str(trial.get("file") or "")
    if not name:
        return (), {}
    folder = _folder(source)
    try:
        # Of a flag it is the person's own.
        path = files.inside(folder, name) if not source.startswith("--") else folder / name
    except InputError as error:
        raise InputError(
            error.problem.message,
            path="sweep.trial.file",
            hint=error.problem.hint,
            source=source,
        ) from error
    only = Sources(files=(str(path),))
    if workload:
        loaded = gathering.load(only, workload)
        layers, user = loaded.layers, loaded.user
    else:
        layers, user = gathering.read(only)
    return layers, {key: value for key, value in user.items() if key not in _WHOLE}


def _folder(source: str) -> Path:
    """The folder of the file in ``file:line``; of a flag the working folder."""
    name, _, line = source.rpartition(":")
    return Path(name).absolute().parent if line.isdigit() and name else Path.cwd()
