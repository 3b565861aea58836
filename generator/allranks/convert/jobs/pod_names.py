"""What a program is told of the old controller's pods: their names, and how many there are."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks.convert.chart_values import trials
from allranks.convert.jobs import other_ranks, roles
from allranks.convert.pods import kubeflow_pod_names
from allranks.convert.programs import shell_comments
from allranks.convert.verdicts import dotted
from allranks.errors import InputError
from allranks.k8s import fields as k8s

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from allranks.convert.pods.podsets import PodSet
    from allranks.convert.verdicts import FieldPath, Fields

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII)
_JOB_NAME = re.compile(r"^metadata\.labels\['(?:batch\.kubernetes\.io/)?job-name'\]$")
_OF_JOBSET = re.compile(
    r"^metadata\.(?:labels|annotations)\['jobset\.sigs\.k8s\.io/(?:jobset-name|replicatedjob-name)'\]$"
)
OTHER_NAMES = (
    "it names pods of the old controller, and they have other names here: read what the chart "
    "tells them (MASTER_ADDR under torchrun, /etc/mpi/hostfile for mpirun), or the names that "
    "`allranks render` shows"
)

_NAMES_OF_HOST = (
    "it makes the names of the other pods of its own host's, and they are called launcher-0, "
    "worker-0 and so on behind the release's name here: read them from /etc/mpi/hostfile, and "
    "leave out what waits for them, which the launcher does"
)
# A name without its last part, which is a pod's number: ``$(hostname | rev | cut -d- -f2- | rev)``.
_HOST = (
    r"(?:\$\(\s*hostname\b[^)|\n]*\|[^)\n]*\)|`\s*hostname\b[^`|\n]*\|[^`\n]*`"
    r"|\$\{HOSTNAME(?:%|/)[^}\n]*\})"
)
_BASE_OF_HOST = re.compile(rf"(?P<name>[A-Za-z_]\w*)=[\"']?{_HOST}")
_NAME_OF_HOST = re.compile(rf"{_HOST}[\"']?-(?=[\d${{])")
_TRIALS = "it names pods of the old controller: the trials of a sweep have no names for each other"


def put_right(fields: Fields, sets: Sequence[PodSet], names: Sequence[str], first: str) -> None:
    """Put right what a program is told of the old controller's pods, or say that it is not.

    Args:
        fields: the object, converted.
        sets: its pods.
        names: the names of pods before their indices: ``train-workers``.
        first: the name of the pod of rank 0.
    """
    exports: dict[str, str] = {}
    other_ranks.refuse(fields, sets)
    is_torchrun = fields.values.get("workload") == "torchrun"
    is_put = is_torchrun and put_address(fields, first)
    for podset in sets:
        here: FieldPath = (*podset.path, "spec", "containers", podset.index)
        for index, entry in fields.items(*here, "env"):
            name, value = k8s.text(entry, "name"), entry.get("value")
            path: FieldPath = (*here, "env", index)
            if not isinstance(value, str) or not _VARIABLE.fullmatch(name):
                continue
            if is_torchrun and name == "WORLD_SIZE" and _world(fields) not in (None, value):
                exports[name] = f"'{value}'" if value.isdigit() else '"$WORLD_SIZE"'
                fields.change(
                    path, "the program is told it again: here it counts processes", "command"
                )
            elif (
                name in (fields.values.get("env") or {}) and _is_pod(value, [first]) and is_torchrun
            ):
                exports[name] = '"$MASTER_ADDR"'
                del fields.values["env"][name]
                fields.change(path, "it is the address of rank 0", "command")
            elif name in (fields.values.get("env") or {}) and _names_pods(value, names):
                _check_trials(fields, podset, path)
                fields.leave(path, _why(fields))
        _put_words(fields, podset, names, is_put=is_put)
        _say_of_others(fields, podset, names)
    if exports and isinstance(fields.values.get("command"), list):
        text = " ".join(f"{name}={value}" for name, value in exports.items())
        fields.values["command"] = roles.wrapped(fields.values["command"], text)


def note_service(fields: Fields, service: str) -> None:
    """Say that a program asks for the Service of the old controller's pods by its name.

    Args:
        fields: the object, converted.
        service: the Service; "" for none.
    """
    name = rf"(?<![\w./-]){re.escape(service)}\.(?:[\w-]+\.svc\b|svc\b)"
    if service and any(re.search(name, shell_comments.without(text)) for text in texts(fields)):
        fields.note(
            f"the command names the Service {service}, and here it is called after the release: "
            f"give the release the name {service}"
        )


def _put_words(fields: Fields, podset: PodSet, names: Sequence[str], *, is_put: bool) -> None:
    """Say of a container's words that they name pods of the old controller, or make their names.

    Args:
        fields: the object, converted.
        podset: the pods.
        names: the names of pods before their indices.
        is_put: whether the address of rank 0 stands in the place of its pod's name.
    """
    here: FieldPath = (*podset.path, "spec", "containers", podset.index)
    of_job = _named(fields, (*here, "env"), _JOB_NAME)
    of_jobset = _named(fields, (*here, "env"), _OF_JOBSET)
    subdomain = fields.text(*podset.path, "spec", "subdomain")

    def is_old(text: str) -> bool:
        text = shell_comments.without(text)
        makes_names = _makes_names(text, of_job) or _makes_names_of_jobset(text, of_jobset)
        return _names_pods(text, names) or makes_names

    for key in ("command", "args"):
        for index, word in enumerate(fields.words(*here, key)):
            path: FieldPath = (*here, key, index)
            has_old_name = is_old(word)
            if has_old_name or _makes_first_name(word, subdomain):
                _check_trials(fields, podset, path)
            if has_old_name and any(map(is_old, texts(fields))):
                fields.leave(path, _why(fields))
            elif is_put and has_old_name:
                fields.change(path, "MASTER_ADDR is rank 0's pod", "command")
            elif _makes_names_of_host(word) and _is_of_mpi(fields):
                fields.leave(path, _NAMES_OF_HOST)


def _is_of_mpi(fields: Fields) -> bool:
    """Whether ranks are started over ssh, by a script that makes names of its own host's."""
    is_mpi = fields.values.get("workload") == "mpi"
    return is_mpi and any(map(_makes_names_of_host, texts(fields)))


def _why(fields: Fields) -> str:
    """Why a name of an old pod is of no use."""
    return _TRIALS if fields.values.get("workload") == "sweep" else OTHER_NAMES


def texts(fields: Fields) -> Iterator[str]:
    """What the container that trains runs."""
    for key in ("command", "args", "setup"):
        yield from trials.texts(fields.values.get(key))


def _say_of_others(fields: Fields, podset: PodSet, names: Sequence[str]) -> None:
    """Say where the other containers of a pod name pods of the old controller.

    A pod is called after the release, and so is the Service: what was called so before is there in
    a release of that name.
    """
    job = fields.text("metadata", "name")
    same = re.compile(rf"{re.escape(job)}-\d+\.{re.escape(job)}(?![\w-])")
    for kind in ("initContainers", "containers"):
        for index, _ in fields.items(*podset.path, "spec", kind):
            here: FieldPath = (*podset.path, "spec", kind, index)
            if (kind, index) == ("containers", podset.index):
                continue
            paths: list[FieldPath] = [
                (*here, key, place)
                for key in ("command", "args")
                for place, _ in enumerate(fields.words(*here, key))
            ]
            paths += [(*here, "env", place, "value") for place, _ in fields.items(*here, "env")]
            for path in paths:
                text = shell_comments.without(str(fields.get(*path) or ""))
                if not _names_pods(text, names):
                    continue
                if _names_pods(same.sub("", text), names):
                    fields.leave(path, kubeflow_pod_names.OTHER_NAMES)
                else:
                    pods = f"{dotted(path)} names pods of the release {job}"
                    fields.note(f"{pods}: give the release this name")


def _check_trials(fields: Fields, podset: PodSet, path: FieldPath) -> None:
    """Refuse pods that reach each other by names where nothing starts ranks: trials do not meet.

    Raises:
        InputError: they are such pods.
    """
    # A JobSet gives its pods names unless it is told not to.
    has_names = fields.has("spec", "replicatedJobs") and (
        fields.get("spec", "network", "enableDNSHostnames") is not False
    )
    meets = has_names or fields.has(*podset.path, "spec", "subdomain")
    if fields.values.get("workload") == "sweep" and podset.replicas > 1 and meets:
        raise InputError(
            "its pods reach each other by their names, and nothing in it starts ranks: they are no "
            "trials, which know of no other",
            path=dotted(path),
            hint="keep its controller for it, or have torchrun or mpirun start its ranks",
        )


def put_address(fields: Fields, first: str) -> bool:
    """Put MASTER_ADDR in the place of rank 0's pod, where a shell runs it; whether there was any.

    What stands between single quotes, or goes on in a way that is not known, stays as it is.

    Args:
        fields: the object, converted.
        first: the name of that pod.
    """
    words = fields.values.get("command")
    put = with_address(words, first) if isinstance(words, list) and first else words
    if put == words:
        return False
    fields.values["command"] = put
    return True


def with_address(words: Sequence[Any], first: str) -> list[Any]:
    """Words with MASTER_ADDR in the place of rank 0's pod, where a shell runs them.

    Args:
        words: a command.
        first: the name of that pod.
    """
    name = re.compile(
        rf"(?<![\w.$-]){re.escape(first)}(?:\.[A-Za-z0-9-]+)*(?![\w$-]|\.[\w$])", re.ASCII
    )
    return [
        name.sub("${MASTER_ADDR}", word)
        if flag in _SCRIPT_FLAGS and isinstance(word, str) and "'" not in word
        else word
        for flag, word in zip(("", *words), words, strict=False)
    ]


# What stands before the script that a shell runs.
_SCRIPT_FLAGS = ("-c", "-ec", "-ce", "-lc", "-xc", "-exc")


def _named(fields: Fields, path: FieldPath, read: re.Pattern[str]) -> tuple[str, ...]:
    """The variables of a container that read a field of its pod, as the name of its Job."""
    return tuple(
        k8s.text(entry, "name")
        for _, entry in fields.items(*path)
        if read.search(k8s.text(entry, "valueFrom", "fieldRef", "fieldPath"))
    )


def _makes_names(text: str, variables: Sequence[str]) -> bool:
    """Whether a script makes names of pods, of variables that have their Job's name."""
    return any(
        re.search(rf"\$(?:{re.escape(name)}\b|\{{{re.escape(name)}\}})[\"']?-", text)
        for name in variables
    )


def _makes_first_name(text: str, subdomain: str) -> bool:
    """Whether a script makes the name of a set's first pod: ``${JOB}-0.${SERVICE}``."""
    if not subdomain:
        return False
    name = rf"[\w}})\"']-0\.(?:\$[({{]?\w|{re.escape(subdomain)}(?![\w-]))"
    return re.search(name, shell_comments.without(text)) is not None


def _makes_names_of_host(text: str) -> bool:
    """Whether a script makes names of other pods of its own host's."""
    code = shell_comments.without(text)
    return _NAME_OF_HOST.search(code) is not None or any(
        re.search(rf"\$\{{?{match['name']}\}}?[\"']?-(?=[\d${{])", code)
        for match in _BASE_OF_HOST.finditer(code)
    )


def _makes_names_of_jobset(text: str, variables: Sequence[str]) -> bool:
    """Whether a script makes names of a JobSet's pods: ``$SET-workers-0-0``, of its Job's index."""
    place = r"-(?:\d+|\$[({]?\w+[)}]?)"
    return any(
        re.search(rf"\$[({{]?{re.escape(name)}\b[)}}]?[\"']?-[^\s/]*?{place}{place}(?![\w-])", text)
        for name in variables
    )


def _world(fields: Fields) -> str | None:
    """How many ranks the job has, where each pod has one that was told its own; None elsewhere."""
    values = fields.values
    if values.get("procsPerNode") != 1 and (values.get("gpusPerNode") or 1) != 1:
        return None
    return str(values.get("nodes"))


def _is_pod(text: str, names: Sequence[str]) -> bool:
    """Whether a text is the name of a pod, with or without its domain."""
    return any(text == name or text.startswith(f"{name}.") for name in names if name)


def _names_pods(text: str, names: Sequence[str]) -> bool:
    """Whether a text names pods of the old controller."""
    return any(names) and pattern(names).search(text) is not None


def pattern(names: Sequence[str]) -> re.Pattern[str]:
    """What finds pods of the old controller; three numbers behind a name are a date.

    Args:
        names: the names of pods before their indices; "" stands for none.
    """
    own = "|".join(re.escape(name) for name in names if name)
    return re.compile(rf"(?<![\w-])(?:{own})-(?:\d+(?!\w|-\d+-\d)|$|\$|[\"'{{])")
