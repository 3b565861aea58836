"""Read the request for a sweep, from values and flags, into one form.

There are two ways to request a sweep. Either its values say so (``workload: sweep``), or a chart
and its own values are named, and flags describe the sweep: ``helm sweep s charts/torchrun -f v.yaml
--set-range lr=1e-5,1e-4``. In the second way a file may have a `sweep` section, too, which the
chart itself never sees.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names, resources
from allranks.errors import InputError, InvalidValues
from allranks.schema import paths
from allranks.schema.validate import find_problems as schema_problems
from allranks.sweep.spec import apply, external_chart, overlays, parameters
from allranks.values import files
from allranks.values import sources as gathering
from allranks.values.merge import overlay
from allranks.values.resolve import typed
from allranks.values.sources import Sources

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from allranks.schema.paths import ValuesPath
    from allranks.sweep.model import Parameter
    from allranks.values.queue import Queue
    from allranks.values.sources import Flag, Loaded
    from allranks.yamlio.document import ValuesDocument

SECTION = "sweep"
_OWN: ValuesPath = (SECTION, "trial", "values")
_VALUES_FILES = (".yaml", ".yml", ".json")
# Keys about the whole sweep, and not about its trials.
_WHOLE = ("workload", "preset", "layout", SECTION)


@dataclass(frozen=True, slots=True)
class SweepFlags:
    """The arguments of a sweep command.

    Attributes:
        name: the sweep's name.
        sources: the values files and flags.
        chart: one of our workloads, a folder or a reference; "" if the values say
            ``workload: sweep``.
        ranges: the texts of ``--set-range``: ``lr=1e-5,1e-4`` or ``seed=1..10``.
        overs: the texts of ``--over``: ``learning=lr.yaml``, see `overlays`.
        section: settings of flags, merged over the section of the values: ``{"trials": 40}``.
        flags: the source of each of these settings, by its path: ``{"trials": "--trials 40"}``.
        namespace: where its releases will be; "" if it does not matter.
        helm: the path of helm; "" to find it.
        parallel: how many trials run at a time unless the values say so; 0 is all of them.
        is_local: its trials run on this machine.
        release: the name of the only release, if plain Helm runs the sweep.
        loaded: its values if they were read before, as standard input can be read only once.
        check_only: check the values and do not run: nothing is fetched, no notes about the run.
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

    @property
    def queue(self) -> Queue | None:
        """The queue whose jobs the trials are; None for none."""
        return self.loaded.queue if self.loaded is not None else self.sources.queue


@dataclass(frozen=True, slots=True)
class SweepRequest:
    """A sweep as the user requested it, from values and flags.

    Attributes:
        section: the values under `sweep`, with the flags.
        shared: the values of all trials, as they were typed.
        workload: which of our charts a trial is a release of; "" for an external chart, and where
            a trial is one pod that runs its command.
        chart: the external chart's folder or reference; "" for ours.
        more: the parameters of flags.
        shorthand: the names of those of ``--set-range``.
        notes: sentences about the values.
        token: returns how the scalar at a path was written.
        where: returns the source of a path of the section, or of the whole values.
        trial_where: returns the source of a path of a trial's values.
        trial_path: returns the path from the root for a path of a trial's values.
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
    notes: tuple[str, ...] = ()


def read_request(request: SweepFlags) -> SweepRequest:
    """Read the values and the flags of a sweep.

    Raises:
        InputError: a source cannot be read or is not valid, or the chart does not exist.
    """
    own, chart = _chart(request.chart)
    _refuse_queue(request.queue, chart)
    merged = _values_request(request) if own == SECTION else _chart_request(request, own, chart)
    ranges = [parameters.flag(text) for text in request.ranges]
    overs = [overlays.flag(text, merged.workload) for text in request.overs]
    flagged = (*ranges, *overs)
    twice = [name for name, count in Counter(item.name for item in flagged).items() if count > 1]
    if twice:
        raise InputError(f"{twice[0]} is given by two flags", hint="keep one of the two")
    flag_texts = {
        item.name: f"{option} {text}"
        for option, texts, items in (
            ("--set-range", request.ranges, ranges),
            (overlays.FLAG, request.overs, overs),
        )
        for text, item in zip(texts, items, strict=True)
    }

    def where(path: ValuesPath) -> str:
        flag = ""
        if path[:2] == (SECTION, "parameters"):
            flag = flag_texts.get(str(path[2]), "") if len(path) > 2 else ""  # noqa: PLR2004 - its name
        elif path[:1] == (SECTION,):
            flag = request.flags.get(paths.show(path[1:]), "")
        return flag or merged.where(path)

    def trial_where(path: ValuesPath) -> str:
        return flag_texts.get(paths.show(path), "") or merged.trial_where(path)

    return replace(
        merged,
        section=overlay(merged.section, request.section),
        where=where,
        trial_where=trial_where,
        more=flagged,
        # A list of plain values in a file is what --set-range would write.
        shorthand=tuple(item.name for item in flagged if not item.overlays),
    )


def _refuse_queue(queue: Queue | None, chart: str, path: str = "") -> None:
    """Refuse a queue whose settings a foreign chart would not understand.

    Raises:
        InputError: there is a queue, and the chart is not ours.
    """
    if queue is not None and chart:
        raise InputError(
            f"{queue.label} has settings for the charts of {names.CLI}, and {chart} is none",
            path=path or "--queue",
            hint="leave -q out, and give the chart its own values",
        )


def _chart(chart: str) -> tuple[str, str]:
    """Return the workload and "" for one of our charts, "" and the chart for an external one."""
    if chart in ("", SECTION):
        return SECTION, ""
    if chart in names.WORKLOADS:
        return chart, ""
    folder = Path(chart)
    if folder.suffix in _VALUES_FILES and (folder.is_file() or not folder.exists()):
        raise InputError(
            f"{chart} is a values file, and no chart",
            hint=f"give it with -f: `{names.CLI} sweep run NAME -f {chart}`",
        )
    if folder.is_dir() and folder.resolve().parent == resources.folder("charts").resolve():
        workload = folder.resolve().name
        if workload in names.WORKLOADS:
            return workload, ""
    return "", external_chart.absolute(chart, Path.cwd())


def _values_request(request: SweepFlags) -> SweepRequest:
    """Return the request of values with ``workload: sweep``."""
    sources = request.sources
    if request.loaded is None and not (sources.files or sources.sets or sources.queue):
        raise InputError(
            "nothing says what to run",
            hint=f"give a values file, as `{names.CLI} init sweep` writes one, "
            f"or name a chart: `{names.CLI} sweep run {request.name} CHART -f values.yaml …`",
        )
    loaded = request.loaded or gathering.load_sources(request.sources)
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
    workload, chart_name = str(trial.get("workload") or ""), str(trial.get("chart") or "")
    _refuse_queue(request.queue, chart_name, "sweep.trial.chart")
    chart_path = (SECTION, "trial", "chart")
    source = loaded.where(chart_path)
    place = (_folder(source), paths.show(chart_path), source)
    chart = external_chart.absolute(chart_name, *place) if chart_name else ""
    base = {} if chart else {k: v for k, v in loaded.user.items() if k not in _WHOLE}
    layers, filed = _trial_file(trial, loaded.where((SECTION, "trial", "file")), workload)
    own = trial.get("values")
    shared = overlay(overlay(base, filed), own if isinstance(own, dict) else {})
    if request.queue is not None:
        shared = overlay(shared, request.queue.imposed.data)

    def trial_path(path: ValuesPath) -> ValuesPath:
        return (*_OWN, *path) if apply.get(own, path) is not apply.MISSING else path

    def trial_where(path: ValuesPath) -> str:
        if trial_path(path) != path:
            return loaded.where(trial_path(path))
        in_file = bool(layers) and apply.get(filed, path) is not apply.MISSING
        return gathering.find(layers, path) if in_file else loaded.where(path)

    return SweepRequest(
        section=section,
        shared=shared,
        workload=workload,
        chart=chart,
        token=loaded.token,
        where=loaded.where,
        trial_where=trial_where,
        trial_path=trial_path,
        notes=tuple(map(str, loaded.overridden)),
    )


def _check_shape(loaded: Loaded) -> None:
    """Refuse what the sweep's schema refuses; the trial's values are checked by their own chart."""
    trial = apply.get(loaded.values, (SECTION, "trial"))
    values = loaded.values
    if isinstance(trial, dict) and isinstance(trial.get("values"), dict):
        section = {**values[SECTION], "trial": {**trial, "values": {}}}
        values = {**values, SECTION: section}
    schema_findings = schema_problems(SECTION, values, loaded.where, typed(loaded.where))
    if schema_findings:
        raise InvalidValues([problem for _, problem in schema_findings])


def _chart_request(request: SweepFlags, workload: str, chart: str) -> SweepRequest:
    """Return the request of a chart and its own values."""
    if workload:
        loaded = gathering.load_sources(request.sources, workload)
        layers, user = loaded.layers, loaded.user
        notes = tuple(map(str, loaded.overridden))
    else:
        layers, user = gathering.read(request.sources)
        notes = ()
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
    return SweepRequest(
        section=overlay(base, section or {}),
        shared=shared,
        workload=workload,
        chart=chart,
        token=_token(layers),
        where=where,
        trial_where=where,
        trial_path=lambda path: path,
        notes=notes,
    )


def _token(layers: tuple[ValuesDocument | Flag, ...]) -> Callable[[ValuesPath], str | None]:
    loaded = gathering.Loaded("", {}, {}, layers=layers)
    return loaded.token


def _trial_file(
    trial: Mapping[str, Any], source: str, workload: str
) -> tuple[tuple[ValuesDocument | Flag, ...], dict[str, Any]]:
    """Return the layers and values of `sweep.trial.file`, relative to the file that names it."""
    name = str(trial.get("file") or "")
    if not name:
        return (), {}
    folder = _folder(source)
    try:
        # A file that a flag names may be anywhere.
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
        loaded = gathering.load_sources(only, workload)
        layers, user = loaded.layers, loaded.user
    else:
        layers, user = gathering.read(only)
    return layers, {key: value for key, value in user.items() if key not in _WHOLE}


def _folder(source: str) -> Path:
    """Return the folder of the file in ``file:line``; for a flag the working folder."""
    name, _, line = source.rpartition(":")
    return Path(name).absolute().parent if line.isdigit() and name else Path.cwd()
