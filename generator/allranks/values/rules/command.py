"""Rules about the command of each process and its environment."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.model.elastic_size import rings
from allranks.values import reserved_env
from allranks.values.rules.base import EVERYTHING, Finding, ValuesRule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.schema.paths import ValuesPath

# A ConfigMap holds 1 MiB of data; the entry scripts share it with the user's.
CONFIG_MAP_MAX = 1024 * 1024
ENTRY_RESERVE = 256 * 1024

# Where the settings of single roles are, whatever the workload.
ROLES = ("own.launcher", "own.worker", "own.roles", "own.mode", "own.framework")

_PYTHON = re.compile(r"(.*/)?python[0-9.]*")
# Names of variables that nobody else should read, and tokens of a tokenizer, which all may.
_SECRET = re.compile(
    r"(?:PASSWORD|PASSWD|PASSPHRASE|SECRET|TOKEN|CREDENTIALS?"
    r"|(?:API|ACCESS|ACCOUNT|PRIVATE|SECRET|SIGNING|SSH)_?KEY)$",
    re.IGNORECASE,
)
_NO_SECRET = re.compile(
    r"(?:^|_)(?:BOS|EOS|PAD|UNK|SEP|CLS|MASK|START|STOP|END|SPECIAL|IMAGE)_?TOKEN$", re.IGNORECASE
)
_FLAGS = frozenset({"true", "false", "yes", "no", "on", "off"})
_INSTEAD = {
    "PET_NNODES": "nodes, or torchrun.elastic",
    "PET_NPROC_PER_NODE": "procsPerNode",
    "PET_MAX_RESTARTS": "torchrun.maxRestarts",
    "PET_RDZV_BACKEND": "torchrun.rdzvBackend",
    "PET_RDZV_ENDPOINT": "torchrun.rdzvEndpoint",
    "PET_RDZV_ID": "torchrun.rdzvId",
    "PET_RDZV_CONF": "torchrun.rdzvConf",
    "PET_MASTER_PORT": "torchrun.port",
    "MASTER_PORT": "torchrun.port",
    "WORLD_SIZE": "gpus, or nodes and procsPerNode",
    "LOCAL_WORLD_SIZE": "procsPerNode",
}


def is_reserved_env(name: str, view: View) -> bool:
    """Whether a variable is set by the workload's entry, or by torchrun or mpirun itself."""
    if view.workload == "elastic":
        mode, framework = view["elastic.mode"], view["elastic.framework"]
        return reserved_env.is_reserved(name, view.workload, mode, framework)
    return reserved_env.is_reserved(name, view.workload)


def roles(view: View) -> tuple[str, ...]:
    """The dotted paths of the settings of single roles, for rules that declare `ROLES`."""
    if view.workload != "elastic":
        return ("own.launcher", "own.worker")
    return tuple(f"own.roles.{role}" for role in view["own.roles"])


def _command_or_script(view: View) -> Iterator[Finding]:
    command, script = view["command"], view["script"]
    if command and script:
        yield Finding(
            path("script"), "both command and script are set; exactly one is", "remove one of them"
        )
    elif not command and not script:
        yield Finding(
            path("command"),
            "neither command nor script is set, so there is nothing to run",
            "write what each process runs, as in command: [python, train.py]",
        )


def _first_word(view: View) -> Iterator[Finding]:
    command = view["command"]
    if command and not command[0].strip():
        yield Finding(
            path("command", 0), "the first word, the program to run, is empty", "name the program"
        )


def _script_size(view: View) -> Iterator[Finding]:
    sizes = {key: len(view[key].encode("utf-8", "replace")) for key in ("script", "setup")}
    allowed = CONFIG_MAP_MAX - ENTRY_RESERVE
    total = sum(sizes.values())
    if total > allowed:
        yield Finding(
            path(max(sizes, key=lambda key: sizes[key])),
            f"script and setup are {total} bytes together; a ConfigMap has room for {allowed}",
            "put the program into the image, or onto storage.workspace, or let setup fetch it "
            "(git clone), and run it with command",
        )


def _module(view: View) -> Iterator[Finding]:
    command = view["command"]
    keys = [key for key in ("module", "runPath") if view[f"torchrun.{key}"]]
    if not keys:
        return
    location = path(f"torchrun.{keys[-1]}")
    if len(keys) > 1:
        yield Finding(location, "module and runPath exclude each other", "set one of them to false")
    elif view["script"]:
        yield Finding(
            location, f"{keys[0]} is about command, and a script is given", "set it to false"
        )
    elif keys == ["runPath"] and command and not command[0].startswith("/"):
        yield Finding(
            path("command", 0),
            f"torchrun.runPath needs an absolute path, and {command[0]} is none",
            f"write it in full, as in /workspace/{command[0]}, or set runPath to false",
        )
    elif command and _PYTHON.fullmatch(command[0]):
        noun = "module" if keys == ["module"] else "path"
        yield Finding(
            location,
            f"command starts with {command[0]}, which would be taken for the {noun} to run",
            f"leave {command[0]} out of command, or set {keys[0]} to false",
        )


def _compat(view: View) -> Iterator[Finding]:
    compat = view["compat"]
    if not compat:
        if view.get("slurm.unset", []):
            message = "compat is empty, and sets none of Slurm's variables"
            yield Finding(path("slurm.unset"), message, "set compat to slurm, or leave it empty")
        return
    if view.workload == names.ELASTIC:
        message = f"the pods of an elastic job have roles, and no ranks of {compat}"
        yield Finding(path("compat"), message, "leave it empty")
    elif view.get("torchrun.runPath", None):
        message = "torchrun.runPath is set, and runs ranks where nothing tells them of Slurm"
        yield Finding(path("compat"), message, "set torchrun.runPath to false")


def _stall(view: View) -> Iterator[Finding]:
    if view.workload == names.ELASTIC:
        choice = {key: view[f"elastic.{key}"] for key in ("mode", "strategy", "framework")}
        has_ring = rings(choice) and not view["elastic.auto.master.command"]
        if view["runPolicy.stallSeconds"] and not has_ring:
            message = (
                "only workers that train in a ring notice it together "
                "(elastic.mode: auto, elastic.framework: pytorch)"
            )
            yield Finding(path("runPolicy.stallSeconds"), message, "leave it out")
        if view["runPolicy.onStall"] != "report":
            message = (
                f"{view['runPolicy.onStall']} is the master's to do, after "
                "elastic.auto.policy.stallSeconds"
            )
            yield Finding(path("runPolicy.onStall"), message, "leave it out")
    elif view["runPolicy.onStall"] != "report" and not view["runPolicy.stallSeconds"]:
        message = f"{view['runPolicy.onStall']} needs runPolicy.stallSeconds, which is 0"
        yield Finding(path("runPolicy.onStall"), message, "set both")


def _unseen_stall(view: View) -> Iterator[Finding]:
    """A limit on stalls that is set, and that nothing will come of."""
    seconds, deadline = view["runPolicy.stallSeconds"], view["runPolicy.activeDeadlineSeconds"]
    if seconds and deadline and seconds >= deadline:
        yield Finding(
            path("runPolicy.stallSeconds"),
            f"{seconds} is no less than runPolicy.activeDeadlineSeconds, {deadline}, after which "
            "the job has ended: no standstill is ever reported",
            "make it less",
        )
    if seconds and view["runPolicy.onStall"] == "end" and not view["runPolicy.diagnose"]:
        yield Finding(
            path("runPolicy.onStall"),
            "end is for ranks that can be asked what they do, and with runPolicy.diagnose: false "
            "they cannot: a standstill of them is reported, and mostly not ended",
            "set runPolicy.diagnose to true, or runPolicy.onStall to report",
        )


def _image(view: View) -> Iterator[Finding]:
    if not view["image.repository"]:
        yield Finding(
            path("image.repository"),
            "is empty, so there is no image to run",
            'name the image, as in image: {repository: my/trainer, tag: "1.4"}; only a run with '
            "--on local needs none",
        )


def _env(view: View) -> Iterator[Finding]:
    for section in ("env", *(f"{role}.env" for role in roles(view))):
        for name in view.get(section, {}):
            if is_reserved_env(name, view):
                instead = _INSTEAD.get(name)
                yield Finding(
                    view.path(section, name),
                    "is reserved: the job sets it for each process",
                    f"set {instead} instead" if instead else "remove it",
                )


def _secret_env(view: View) -> Iterator[Finding]:
    for section in ("env", *(f"{role}.env" for role in roles(view))):
        for name, value in view.get(section, {}).items():
            if isinstance(value, str) and is_secret_env(name, value):
                yield Finding(
                    view.path(section, name),
                    "has the name of a secret, and its value stands in the job's objects, which "
                    "all who may look at the job can read",
                    f"put it into a Secret, and write env: {{{name}: {{valueFrom: "
                    "{secretKeyRef: {name: SECRET, key: KEY}}}}",
                )


def is_secret_env(name: str, value: str) -> bool:
    """Whether a variable is one whose value nobody else should read, by its name.

    Tokens of a tokenizer have such names as well, and so do the places of files.
    """
    is_plain = not value or value.isdigit() or value.lower() in _FLAGS or value.startswith("/")
    return not is_plain and bool(_SECRET.search(name)) and not _NO_SECRET.search(name)


_UNCLEAN = re.compile("[\0\ud800-\udfff]")


def _clean_text(view: View) -> Iterator[Finding]:
    if not _has_unclean(view.values):  # nearly always; a place for each text takes long
        return
    for location, text in _texts(view.values, ()):
        if not _UNCLEAN.search(text):
            continue
        if "\0" in text:
            yield Finding(
                location, "the text has a NUL character, which no program can be given", "remove it"
            )
        else:
            yield Finding(
                location,
                "the text has half of a surrogate pair, which is no character",
                "remove it",
            )


def _has_unclean(value: Any) -> bool:
    """Whether a text among values has such a character, or a key."""
    if isinstance(value, str):
        return _UNCLEAN.search(value) is not None
    if isinstance(value, dict):
        return any(_has_unclean(key) or _has_unclean(item) for key, item in value.items())
    return isinstance(value, list) and any(map(_has_unclean, value))


def _texts(value: Any, location: ValuesPath) -> Iterator[tuple[ValuesPath, str]]:
    if isinstance(value, str):
        yield location, value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield (*location, key), key
            yield from _texts(item, (*location, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _texts(item, (*location, index))


RULES = (
    ValuesRule(
        "command-or-script",
        "Exactly one of `command` and `script` is set.",
        ("command", "script"),
        _command_or_script,
    ),
    ValuesRule(
        "first-word", "The first word of `command` is not empty.", ("command",), _first_word
    ),
    ValuesRule(
        "script-size",
        "`script` and `setup` fit into one ConfigMap of 1 MiB together with the entry script.",
        ("script", "setup"),
        _script_size,
    ),
    ValuesRule(
        "module",
        "`torchrun.module` and `torchrun.runPath` exclude each other, need `command`, and "
        "`command` then starts with the module or an absolute path, not with `python`.",
        ("command", "script", "torchrun.module", "torchrun.runPath"),
        _module,
        workload="torchrun",
    ),
    ValuesRule(
        "compat",
        "`compat: slurm` is for ranks: not for elastic jobs, and not beside `torchrun.runPath`; "
        "`slurm.unset` goes with it alone.",
        ("compat", "torchrun.runPath", "slurm.unset"),
        _compat,
    ),
    ValuesRule(
        "stall",
        "`runPolicy.onStall: end` needs `stallSeconds`; of elastic jobs only workers of torchrun "
        "have `stallSeconds`, and their master does what is to be done.",
        (
            *("runPolicy.stallSeconds", "runPolicy.onStall"),
            *("elastic.mode", "elastic.strategy", "elastic.framework"),
            "elastic.auto.master.command",
        ),
        _stall,
    ),
    ValuesRule(
        "unseen-stall",
        "`runPolicy.stallSeconds` is less than `activeDeadlineSeconds`, and `onStall: end` comes "
        "with `diagnose`.",
        (
            *("runPolicy.stallSeconds", "runPolicy.activeDeadlineSeconds"),
            *("runPolicy.onStall", "runPolicy.diagnose"),
        ),
        _unseen_stall,
        warning=True,
    ),
    ValuesRule(
        "image",
        "`image.repository` is set; a run on this machine (`--on local`) needs none.",
        ("image",),
        _image,
        cluster=True,
    ),
    ValuesRule(
        "reserved-env",
        "`env` sets no variable that the job sets itself: `ALLRANKS_*`, `JOB_COMPLETION_INDEX`, "
        "and what torchrun (`PET_*`, `RANK`, `WORLD_SIZE`, …) or mpirun (`OMPI_COMM_WORLD_*`, "
        "`PMI_*`, …) gives each process; with elastic what the framework reads (`TF_CONFIG`, "
        "`DMLC_*`, `MASTER_ADDR`, …).",
        ("env", *ROLES),
        _env,
    ),
    ValuesRule(
        "secret-env",
        "`env` holds no passwords, tokens and keys as text, by their names: those belong in a "
        "Secret, and `env` takes them from there by `valueFrom`.",
        ("env", *ROLES),
        _secret_env,
        warning=True,
        cluster=True,
    ),
    ValuesRule(
        "clean-text",
        "No text has NUL characters or halves of surrogate pairs; all else is taken as typed.",
        (EVERYTHING,),
        _clean_text,
    ),
)
