"""A batch script of Slurm as values.

The directives say how large the job is and where it runs, the script what it runs. `options` has a
verdict for each directive; this module puts those that are carried where they belong.
"""

from __future__ import annotations

import codecs
import re
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import finish
from allranks.convert.slurm import amounts, body, hostlist, images, options, script, sizes
from allranks.convert.verdicts import Conversion, Fields, Named, Outcome, dotted
from allranks.errors import InputError, InvalidValues, Problem
from allranks.humanize import plural
from allranks.values.rules.names import nearest_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from allranks.convert.slurm.options import Setting
    from allranks.convert.slurm.script import Body
    from allranks.convert.slurm.sizes import Size

KIND = "sbatch script"

_DIRECTIVE = re.compile(rb"^#SBATCH(?:\s|$)", re.MULTILINE)
_SCRIPT = re.compile(rb"#!\s*\S*(?:sh|bash|python[0-9.]*|env\s)")
_TRAINER = "trainer"
_MOST_GPUS = 16  # of a node, as far as processes say how many it has
_NAME_MAX = 45  # leaves room for what pods and submits put behind a name
_HOSTS_SHOWN = 1_000
_LARGE_GRID = 10_000  # trials of a grid that has to say how many it wants
# What bash has and sh has not.
_BASH = re.compile(
    r"\[\[|^\s*(?:source|declare|shopt|function|pushd|mapfile)\b|<\(|<<<|\$\{[^}]*[/^,]|=\(|&>|\$'|\(\(",
    re.MULTILINE,
)
_OF_STEP = "srun "
_ARRAY = "SLURM_ARRAY_TASK_ID"
# Of a script that names none; values without an image are not valid.
_IMAGE = {"repository": "pytorch/pytorch", "tag": "2.8.0-cuda12.8-cudnn9-runtime"}


def is_script(data: bytes) -> bool:
    """Whether a file is a batch script and no manifest: it has a directive, or begins as one."""
    return _SCRIPT.match(data) is not None or _DIRECTIVE.search(data) is not None


@dataclass(slots=True)
class _Job:
    """A job while it is being converted.

    Attributes:
        source: the script's name.
        own: its directives and statements, as the fields of the report.
        fields: the same, what became of them, and the values.
        lines: the line of each of them.
        settings: the options, a later one of a name in place of an earlier one.
        size: what they ask for.
        body: what the script runs.
        text: the script.
    """

    source: str
    own: dict[str, str]
    fields: Fields
    lines: dict[str, int] = field(default_factory=dict)
    settings: dict[str, Setting] = field(default_factory=dict)
    size: Size = field(default_factory=sizes.Size)
    body: Body = field(default_factory=script.Body)
    text: str = ""

    def key(self, text: str, line: int) -> str:
        """A field of the report, which the source gets."""
        key, number = text, 1
        while key in self.own:
            number += 1
            key = f"{text} ({number})"
        self.own[key] = text
        self.lines[key] = line
        return key

    def put(self, name: str, to: tuple[str, ...], value: Any) -> None:
        """Set a value that an option ends in."""
        self.fields.put(to, value, (_key(name),))

    def say(self, name: str, outcome: Outcome, to: str = "", why: str = "") -> None:
        """Say what became of an option, if it was given."""
        self.fields.say((_key(name),), outcome, to, why)

    def origin(self, names_of: Sequence[str]) -> tuple[str, ...]:
        """The field of the first of some options that was given; () for none."""
        name = next((name for name in names_of if name in self.settings), "")
        return (_key(name),) if name else ()

    def refuse(self, line: int, message: str, hint: str) -> InvalidValues:
        """A problem with its line."""
        return InvalidValues(
            [Problem("", message, hint, f"{self.source}:{line}" if line else self.source)]
        )


def _key(name: str) -> str:
    """The field of the report of an option; that of a step's has its key as its name."""
    return name if name.startswith(_OF_STEP) else f"--{name}"


def convert(
    data: bytes,
    source: str,
    *,
    words: Sequence[str] = (),
    args: Sequence[str] = (),
    namespace: str = "",
) -> Conversion:
    """A batch script as values.

    Args:
        data: the script.
        source: its name.
        words: options of a command line, as sbatch takes them; they win over the script's.
        args: words behind the script's name.
        namespace: the namespace of the run; "" for none.

    Raises:
        InvalidValues: it cannot be a run; the problems have their lines.
        InputError: it is no batch script.
    """
    own: dict[str, str] = {}
    job = _Job(source, own, Fields(own, {}))
    text = _text(data, source, job)
    read = options.directives(text.split("\n"))
    given_words, rest = options.parse(list(words), "sbatch", 0)
    if rest:
        raise InputError(
            f"{rest[0]!r} is no option of sbatch's", hint="write options before the script's name"
        )
    _refuse_parts(job, read)
    settings = [*read.settings, *given_words]
    _declare(job, settings)
    wrap = job.settings.get("wrap")
    if wrap is not None:
        text = f"#!/bin/sh\n{wrap.value}\n"
        job.say("wrap", Outcome.CARRIED, "command")
    job.text = text
    job.size = sizes.read(settings)
    job.body = body.read(text, source=source, size=job.size, settings=settings, args=args)
    _put_body(job, args)
    for setting in job.body.settings:
        _declare_step(job, setting)
    _put_size(job)
    asked, nodes = job.size.nodes, job.body.nodes
    if asked and nodes and nodes < asked and "nodes" not in job.size.outcomes:
        why = f"the job's step runs on {nodes} of its {asked} nodes"
        job.size.outcomes["nodes"] = (Outcome.CHANGED, "nodes", why)
    for option, function in _CARRIED.items():
        if option in job.settings:
            function(job, job.settings[option])
    _put_policy(job)
    _put_array(job)
    for name, (outcome, to, why) in job.size.outcomes.items():
        job.say(name, outcome, to, why)
    _say_rest(job, read)
    return _done(job, namespace)


def _text(data: bytes, source: str, job: _Job) -> str:
    if not data.strip():
        raise InputError(f"{source} is empty", hint="name a batch script")
    if data.startswith(codecs.BOM_UTF8):
        data = data.removeprefix(codecs.BOM_UTF8)
        job.fields.note(
            "the script has a mark of the byte order, which sbatch refuses; it was taken off"
        )
    text = data.decode(errors="replace").replace("\0", "\ufffd")
    _check_encoding(text, source)
    if "\r\n" in text:
        text = text.replace("\r\n", "\n")
        job.fields.note(
            "the script has the line ends of DOS, which sbatch refuses; they were taken off"
        )
    text = text.replace("\r", "\n") if "\n" not in text else text.replace("\r", "")
    if not text.startswith("#!"):
        job.fields.note(
            "sbatch wants a first line such as #!/bin/bash; the script was read as bash's"
        )
    return text


def _check_encoding(text: str, source: str) -> None:
    """Refuse a letter that is no UTF-8, but in a comment: it would be lost in silence."""
    if "\ufffd" not in text:
        return
    for line, row in enumerate(re.split("\r\n|\n|\r", text), 1):
        is_comment = row.lstrip().startswith("#") and not row.startswith("#SBATCH")
        if "\ufffd" in row and not is_comment:
            raise InputError(
                "the script is not UTF-8", source=f"{source}:{line}", hint="save it as UTF-8"
            )


def _refuse_parts(job: _Job, read: options.Directives) -> None:
    parts = [setting for setting in read.settings if setting.name in ("hetjob", "packjob")]
    if parts:
        raise job.refuse(
            parts[0].line,
            f"the job has {plural(len(parts) + 1, 'part')} of different pods, and those of a run "
            "are alike",
            "make a script of each part and convert those",
        )


def _declare(job: _Job, settings: Sequence[Setting]) -> None:
    """Make each option a field of the report."""
    for setting in settings:
        name = setting.name
        if setting.option is None:
            shown = f"-{name}" if len(name) == 1 else f"--{name}"
            key = job.key(shown, setting.line)
            job.fields.leave(
                (key,), "it is no option of sbatch's, or one of a plugin of your site's"
            )
            continue
        key = _key(name)
        if key in job.own:
            again = job.key(key, job.lines[key])
            why = "a later one stands in its place"
            job.fields.say((again,), Outcome.CHANGED, "", why)
        job.own[key] = setting.value or name
        job.lines[key] = setting.line
        job.settings[name] = setting


def _declare_step(job: _Job, setting: Setting) -> None:
    """The options of the srun that starts the ranks; those of the size were read with the step."""
    name = setting.name
    if setting.option is None:
        shown = f"srun -{name}" if len(name) == 1 else f"srun --{name}"
        job.fields.leave(
            (job.key(shown, setting.line),),
            "it is no option of srun's, or one of a plugin of your site's",
        )
        return
    family = next((family for family in _FAMILIES if name in family), (name,))
    is_new = not any(other in job.settings for other in family)
    if is_new and (name.startswith("container-") or len(family) > 1):
        _declare(job, [setting])
        return
    key = job.key(f"srun --{name}", setting.line)
    outcome, to, why = setting.option.outcome, setting.option.to, setting.option.why
    if name in _OF_JOB or len(family) > 1:
        outcome, why = Outcome.CHANGED, "the step has the whole job"
    elif name == "export":
        _export(job, replace(setting, name=key))
        return
    elif name == "chdir":
        job.say(key, Outcome.CARRIED, "workingDir")
        _chdir(job, replace(setting, name=key))
        return
    elif name == "input" and setting.value == "none":
        outcome, why = Outcome.CARRIED, ""
    job.fields.say((key,), outcome, to, why)


def _done(job: _Job, namespace: str) -> Conversion:
    fields = job.fields
    named = job.settings.get("job-name")
    wanted = named.value if named is not None else PurePath(job.source).stem
    name = nearest_name(wanted or "job", _NAME_MAX)
    if named is not None and name != named.value:
        job.say("job-name", Outcome.CHANGED, name, "a release's name is a Service's")
    chart = str(fields.values["workload"])
    if not (fields.values.get("image") or {}).get("repository"):
        key = job.key("the image", 0)
        fields.put(("image",), dict(_IMAGE), (key,))
        why = (
            "the script names none: this one has PyTorch alone; give the one that has what you load"
        )
        fields.say((key,), Outcome.CHANGED, "image", why)
    problems = finish.problems_of(fields.values, chart, name)
    for path, _ in problems:
        # What is taken out is said, whether a directive or a line of the script has led to it.
        if not any(path[: len(to)] == to or to[: len(path)] == path for to in fields.origins):
            fields.origins[path] = (job.key(dotted(path), 0),)
    if problems:
        finish.settle(fields, chart, name)
    verdicts = tuple(
        replace(verdict, line=job.lines.get(str(verdict.keys[0]), 0))
        for verdict in fields.verdicts()
    )
    partition = job.settings.get("partition")
    return Conversion(
        kind=KIND,
        name=name,
        namespace=namespace,
        values=finish._ordered(finish._without_empty(fields.values)),  # noqa: SLF001 - see below
        verdicts=verdicts,
        queue=partition.value if partition is not None else "",
        source=job.source,
        line=1,
        notes=tuple(fields.notes),
        origins=fields.origins,
    )


# --- what runs ------------------------------------------------------------------------------------


def _put_body(job: _Job, args: Sequence[str]) -> None:
    made, fields = job.body, job.fields
    inside = made.values.pop("", {})
    program: dict[str, Any] = {
        "workload": made.workload,
        "script": made.script,
        "args": list(args) if made.script else [],
        "command": [] if made.script else list(made.command),
        "setup": made.setup if made.setup.strip() else "",
        "workingDir": inside.get("working_dir") or made.working_dir,
        "image": inside.get("image"),
        **made.values,
    }
    for key, value in program.items():
        if value:
            fields.put((key,), value)
    if "mounts" in inside:
        _mount(job, job.key("--bind", inside["line"]), inside["mounts"])
    for name, text in {**inside.get("env", {}), **made.env}.items():
        fields.put(("env", name), text)
    for verdict in made.verdicts:
        key = job.key(verdict.path, verdict.line)
        fields.say((key,), verdict.outcome, verdict.to, verdict.why)
    for note in made.notes:
        fields.note(note)
    if made.uses_slurm or _BASH.search(made.setup):
        fields.put(("compat",), "slurm")


_OF_NODES = ("nodes", "ntasks")
_OF_GPUS = (
    *("gpus-per-node", "gres", "gpus", "gpus-per-task", "gpus-per-socket"),
    *("tres-per-task", "tres-per-job"),
)
_OF_CPUS = ("cpus-per-task", "cpus-per-gpu", "mincpus", "ntasks-per-node", "ntasks")
_OF_MEMORY = ("mem", "mem-per-cpu", "mem-per-gpu")
_FAMILIES = (_OF_GPUS, ("cpus-per-task", "cpus-per-gpu"), _OF_MEMORY)
# What a step may ask of its job, which it has as a whole.
_OF_JOB = (
    *("exclusive", "nodelist", "exclude", "constraint", "partition", "account", "time", "signal"),
    "reservation",
)


def _put_size(job: _Job) -> None:
    size, made, fields = job.size, job.body, job.fields
    of_nodes, of_gpus = job.origin(_OF_NODES), job.origin(_OF_GPUS)
    gpus = size.gpus_per_node
    if size.gpus and gpus is None and (made.script or made.nodes == 1):
        gpus = min(size.gpus, sizes.MOST_PER_NODE)
    if size.gpus and gpus is None and made.nodes is None:
        fields.put(("gpus",), size.gpus, of_gpus)
    else:
        nodes = made.nodes or 1
        fields.put(("nodes",), nodes, of_nodes)
        gpus = gpus or (max(1, size.gpus // nodes) if size.gpus else None)
        if gpus:
            fields.put(("gpusPerNode",), gpus, of_gpus)
    procs = made.procs_per_node
    if procs and procs != (gpus or 1):
        fields.put(("procsPerNode",), procs)
    if not of_gpus and not gpus:
        _guess_gpus(job)
    if of_gpus:
        _put_gpu_type(job, of_gpus[0].removeprefix("--"))
    _put_resources(job)


def _put_resources(job: _Job) -> None:
    """What a pod is promised; of memory it may use no more either, as in Slurm."""
    size = job.size
    memory = amounts.memory(size.memory) if size.memory else ""
    amounts_of = (
        ("requests", "cpu", str(size.cpus_per_node or ""), _OF_CPUS),
        ("requests", "memory", memory, _OF_MEMORY),
        ("limits", "memory", memory, _OF_MEMORY),
        ("requests", "ephemeral-storage", amounts.memory(size.disk) if size.disk else "", ("tmp",)),
    )
    for kind, key, amount, options_of in amounts_of:
        if amount:
            to = ("resources", "perPod", kind, key)
            job.fields.put(to, amount, job.origin(options_of))


_ON_GPUS = re.compile(
    r"nccl|cuda|gpu|torchrun|torch\.distributed|deepspeed|accelerate", re.IGNORECASE
)
_ON_CPUS = re.compile(r"\bgloo\b|--?(?:use_)?cpu\b|no[-_]cuda|\bccl\b|device[= ]cpu", re.IGNORECASE)


def _guess_gpus(job: _Job) -> None:
    """GPUs of a script that asks for none: sites give whole nodes, and scripts count on them."""
    made, values = job.body, job.fields.values
    if made.workload == "mpi" or not _ON_GPUS.search(job.text) or _ON_CPUS.search(job.text):
        return
    count = values.get("procsPerNode", 1)
    if made.script or count == 1 or count > _MOST_GPUS:
        job.fields.note(
            "the script asks for no GPUs: set gpusPerNode where the nodes of its partition "
            "gave it some"
        )
        return
    key = job.key("the GPUs", 0)
    values.pop("procsPerNode")
    job.fields.put(("gpusPerNode",), count, (key,))
    why = (
        f"the script asks for none, and starts {plural(count, 'process')} on each node, as on one "
        "with so many"
    )
    job.fields.say((key,), Outcome.CHANGED, "gpusPerNode", why)


def _put_gpu_type(job: _Job, option: str) -> None:
    types = job.size.gpu_types
    if not types:
        return
    if any(kind in sizes.AMD for kind in types):
        job.put(option, ("gpuResource",), "amd.com/gpu")
        job.say(
            option,
            Outcome.CHANGED,
            "gpusPerNode, gpuResource",
            "the GPU is AMD's; its type is a label of your nodes",
        )
        return
    products = sizes.products(types)
    if not products:
        shown = ", ".join(types)
        job.say(
            option,
            Outcome.NOT_CARRIED,
            "gpuType.value",
            f"{shown} is what your site calls a GPU: write the value of the label "
            "nvidia.com/gpu.product",
        )
        return
    if len(products) == 1:
        job.put(option, ("gpuType", "value"), products[0])
        to = "gpusPerNode, gpuType.value"
    else:
        _affinity(job, option, "nvidia.com/gpu.product", "In", products)
        to = "gpusPerNode, scheduling.affinity"
    job.say(option, Outcome.CHANGED, to, "the type is the label nvidia.com/gpu.product")


# --- where it runs --------------------------------------------------------------------------------


def _affinity(job: _Job, option: str, key: str, operator: str, values: Sequence[str]) -> None:
    """Add a demand on nodes."""
    base = (
        "scheduling",
        "affinity",
        "nodeAffinity",
        "requiredDuringSchedulingIgnoredDuringExecution",
        "nodeSelectorTerms",
    )
    node: Any = job.fields.values
    for step in base:
        node = node.get(step, {}) if isinstance(node, dict) else {}
    terms = node if isinstance(node, list) else []
    expressions = [*terms[0]["matchExpressions"]] if terms else []
    expressions.append({"key": key, "operator": operator, "values": list(values)})
    job.put(option, base, [{"matchExpressions": expressions}])


def _nodelist(job: _Job, setting: Setting) -> None:
    try:
        hosts = hostlist.expand(setting.value)
    except ValueError as error:
        job.say(setting.name, Outcome.NOT_CARRIED, "", f"it is no list of hosts: {error}")
        return
    if not hosts or len(hosts) > _HOSTS_SHOWN or "/" in setting.value:
        job.say(
            setting.name,
            Outcome.NOT_CARRIED,
            "scheduling.affinity",
            "write the nodes by a label of theirs",
        )
        return
    operator = "In" if setting.name == "nodelist" else "NotIn"
    _affinity(job, setting.name, names.HOSTNAME, operator, hosts)
    job.say(
        setting.name,
        Outcome.CHANGED,
        "scheduling.affinity",
        f"by the label {names.HOSTNAME}: write other names where the nodes have others",
    )


def _constraint(job: _Job, setting: Setting) -> None:
    features = re.split(r"[|]", setting.value.strip("()[]\"' "))
    products = sizes.products([feature.strip().lower() for feature in features])
    is_whole = all(sizes.products([feature.strip().lower()]) for feature in features)
    if products and is_whole:
        _affinity(job, setting.name, "nvidia.com/gpu.product", "In", products)
        job.say(
            setting.name,
            Outcome.CHANGED,
            "scheduling.affinity",
            "the type is the label nvidia.com/gpu.product",
        )
        return
    job.say(
        setting.name,
        Outcome.NOT_CARRIED,
        "scheduling.nodeSelector",
        "a feature of a node is a label here: write that which your nodes have",
    )


def _topology(job: _Job, setting: Setting) -> None:
    job.put(setting.name, ("scheduling", "topology", "mode"), "preferred")
    job.say(
        setting.name,
        Outcome.CHANGED,
        "scheduling.topology.mode",
        "nodes that are near each other are preferred",
    )


# --- how long, and what then ----------------------------------------------------------------------


def _time(job: _Job, setting: Setting) -> None:
    seconds = amounts.seconds(setting.value)
    if seconds is None:
        job.say(
            "time",
            Outcome.NOT_CARRIED,
            "",
            f"{setting.value!r} is no time such as 90, 12:00:00 or 2-12",
        )
    elif seconds:
        job.put("time", ("runPolicy", "activeDeadlineSeconds"), seconds)
    else:
        job.say("time", Outcome.CARRIED, "", "a run has no limit unless it is given one")


def _hold(job: _Job, setting: Setting) -> None:
    job.put(setting.name, ("runPolicy", "suspend"), True)


def _signal(job: _Job, setting: Setting) -> None:
    wanted = amounts.signal(setting.value)
    if wanted is None:
        job.say(
            "signal", Outcome.NOT_CARRIED, "", f"{setting.value!r} is no signal such as USR1@120"
        )
        return
    to = "runPolicy.terminationGracePeriodSeconds"
    job.put("signal", ("runPolicy", "terminationGracePeriodSeconds"), max(wanted.seconds, 1))
    if wanted.name == "TERM":
        job.say("signal", Outcome.CHANGED, to, "a pod is told to end so long before it is killed")
    else:
        job.say(
            "signal",
            Outcome.NOT_CARRIED,
            to,
            f"the time is carried, and the signal is SIGTERM, not SIG{wanted.name}: let the "
            "program handle "
            "SIGTERM as well",
        )


def _put_policy(job: _Job) -> None:
    if "requeue" not in job.settings:
        job.fields.put(("runPolicy", "backoffLimit"), 0)
        job.fields.note(
            "a run that fails does not start again, as in Slurm (runPolicy.backoffLimit is "
            "0); a pod that its node "
            "has lost does"
        )
    else:
        why = "a run that fails starts again, as often as runPolicy.backoffLimit says"
        job.say("requeue", Outcome.CHANGED, "runPolicy.backoffLimit", why)


# --- words about it -------------------------------------------------------------------------------


def _label(job: _Job, setting: Setting) -> None:
    value = re.sub(r"[^A-Za-z0-9_.-]+", "-", setting.value)[:63].strip("-_.")
    if value:
        job.put(setting.name, ("labels", setting.name), value)
        why = setting.option.why if setting.option else ""
        job.say(setting.name, Outcome.CHANGED, f"labels.{setting.name}", why)
    else:
        job.say(setting.name, Outcome.CHANGED, "", "it is empty")


def _annotation(job: _Job, setting: Setting) -> None:
    job.put(setting.name, ("annotations", setting.name), setting.value)
    job.say(
        setting.name,
        Outcome.CHANGED,
        f"annotations.{setting.name}",
        setting.option.why if setting.option else "",
    )


def _chdir(job: _Job, setting: Setting) -> None:
    if not setting.value.startswith("/") or "%" in setting.value:
        job.say(setting.name, Outcome.NOT_CARRIED, "workingDir", "it is no absolute path")
    elif job.body.goes_back and setting.name in ("chdir", "workdir"):
        why = f"the script goes back to the folder that `{names.CLI} sbatch` and `submit` send"
        job.say(setting.name, Outcome.CHANGED, "", why)
    elif "workingDir" in job.fields.values and not setting.name.startswith(_OF_STEP):
        job.say(setting.name, Outcome.CHANGED, "workingDir", "the script goes to another folder")
    else:
        job.put(setting.name, ("workingDir",), setting.value)


def _export(job: _Job, setting: Setting) -> None:
    parts = [part.strip() for part in setting.value.split(",") if part.strip()]
    lost = []
    for part in parts:
        name, equals, value = part.partition("=")
        if equals and re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) and "$" not in value:
            job.put(setting.name, ("env", name), value)
        elif equals or part.upper() not in ("ALL", "NONE", "NIL"):
            lost.append(name)
    if lost:
        job.say(
            setting.name,
            Outcome.NOT_CARRIED,
            "env",
            f"a pod has not the environment of who submits: write {', '.join(lost)} into env",
        )
    elif [part.upper() for part in parts] in (["NONE"], ["NIL"]):
        job.say(setting.name, Outcome.CARRIED, "", "a pod has not the environment of who submits")
    elif any("=" in part for part in parts):
        job.say(
            setting.name, Outcome.CHANGED, "env", "a pod has these, and no other of who submits"
        )


def _dependency(job: _Job, setting: Setting) -> None:
    if setting.value.strip() == "singleton":
        job.say("dependency", Outcome.CARRIED, "", "two runs of one name are never there at once")


def _no_value(job: _Job, setting: Setting) -> None:
    """Leave the option's own verdict."""


# --- Pyxis ----------------------------------------------------------------------------------------


def _container_image(job: _Job, setting: Setting) -> None:
    parts = images.image(setting.value)
    if parts is None:
        is_unknown = "$" in setting.value
        why = f"{setting.value} is known on the old cluster alone" if is_unknown else images.OF_FILE
        job.say(setting.name, Outcome.NOT_CARRIED, "image", why)
        return
    for key, value in parts.items():
        job.put(setting.name, ("image", key), value)
    why = "the # behind the registry is Pyxis'" if "#" in setting.value else ""
    job.say(setting.name, Outcome.CHANGED if why else Outcome.CARRIED, "image", why)


def _container_mounts(job: _Job, setting: Setting) -> None:
    _mount(job, _key(setting.name), setting.value)


def _mount(job: _Job, key: str, text: str) -> None:
    made = images.mounts(text)
    base = ("podTemplate", "spec")
    if made.mounts:
        job.fields.put((*base, "volumes"), made.volumes, (key,))
        job.fields.put(
            (*base, "containers", Named(_TRAINER)), {"volumeMounts": made.mounts}, (key,)
        )
    if made.workspace:
        job.fields.put(("workspace", "mountPath"), made.workspace, (key,))
    if made.wrong:
        job.fields.say(
            (key,),
            Outcome.NOT_CARRIED,
            "podTemplate.spec.volumes",
            f"{', '.join(made.wrong)} is known on the old cluster alone: give a claim in storage",
        )
    elif made.workspace and not made.mounts:
        job.fields.say(
            (key,),
            Outcome.CHANGED,
            "workspace.mountPath",
            f"the folder that `{names.CLI} sbatch` and `submit` send is there",
        )
    else:
        job.fields.say(
            (key,),
            Outcome.CHANGED,
            "podTemplate.spec.volumes",
            "a folder of the node is a volume of kind hostPath: give it a claim where nodes "
            "do not share it",
        )


def _container_workdir(job: _Job, setting: Setting) -> None:
    _chdir(job, setting)


def _container_readonly(job: _Job, setting: Setting) -> None:
    job.put(setting.name, ("security", "containerSecurityContext", "readOnlyRootFilesystem"), True)


_CARRIED: dict[str, Callable[[_Job, Setting], None]] = {
    "time": _time,
    "hold": _hold,
    "signal": _signal,
    "account": _label,
    "qos": _label,
    "wckey": _label,
    "comment": _annotation,
    "extra": _annotation,
    "nodelist": _nodelist,
    "exclude": _nodelist,
    "constraint": _constraint,
    "prefer": _constraint,
    "contiguous": _topology,
    "switches": _topology,
    "segment": _topology,
    "consolidate-segments": _topology,
    "chdir": _chdir,
    "workdir": _chdir,
    "export": _export,
    "dependency": _dependency,
    "container-image": _container_image,
    "container-mounts": _container_mounts,
    "container-workdir": _container_workdir,
    "container-readonly": _container_readonly,
}


# --- arrays ---------------------------------------------------------------------------------------


def _put_array(job: _Job) -> None:
    setting = job.settings.get("array")
    if setting is None:
        return
    array = amounts.array(setting.value)
    if array is None or not array.indexes:
        job.say(
            "array",
            Outcome.NOT_CARRIED,
            "sweep.parameters",
            f"{setting.value!r} is no list such as 0-15 or 0,6,16-32%4 of up to "
            f"{amounts.MOST_TASKS:,} tasks",
        )
        return
    if job.body.workload != "torchrun":
        raise job.refuse(
            setting.line,
            "each task of the array is an MPI job, and the trials of a sweep are none",
            "leave --array out and convert the script; start the run once for each task, with "
            f"--set-string env.{_ARRAY}=0",
        )
    fields, made = job.fields, job.body
    ranks = bool(made.command) or (made.nodes or 1) > 1
    torchrun = fields.values.pop("torchrun", None)
    fields.values["workload"] = "sweep"
    space: dict[str, Any] = {"values": list(array.indexes)}
    if array.step:
        space = {"range": {"min": array.indexes[0], "max": array.indexes[-1], "step": array.step}}
    job.put("array", ("sweep", "parameters", _ARRAY), {**space, "env": _ARRAY})
    if array.parallel:
        job.put("array", ("sweep", "parallel"), array.parallel)
    if len(array.indexes) > _LARGE_GRID:
        job.put("array", ("sweep", "trials"), len(array.indexes))
    if ranks:
        fields.put(("sweep", "trial", "workload"), "torchrun")
        if torchrun:
            fields.put(("sweep", "trial", "values"), {"torchrun": torchrun})
    elif fields.values.get("procsPerNode"):
        fields.values.pop("procsPerNode")
    # The program may read them, and nobody has looked into it.
    fields.put(("compat",), "slurm")
    for name, value in (
        ("SLURM_ARRAY_TASK_COUNT", len(array.indexes)),
        ("SLURM_ARRAY_TASK_MIN", min(array.indexes)),
        ("SLURM_ARRAY_TASK_MAX", max(array.indexes)),
        ("SLURM_ARRAY_TASK_STEP", array.step or 1),
    ):
        fields.put(("env", name), str(value), (_key("array"),))


# --- the rest -------------------------------------------------------------------------------------


def _say_rest(job: _Job, read: options.Directives) -> None:
    """Say what the rules say of all that nobody has spoken of."""
    spoken = {
        verdict.path for verdict in job.fields.verdicts() if verdict.why != job.fields.unknown
    }
    for name, setting in job.settings.items():
        option = setting.option
        if option is None or _key(name) in spoken:
            continue
        if name in _CARRIED and _key(name) in {
            str(source[0]) for source in job.fields.origins.values()
        }:
            to = next(
                ".".join(map(str, to))
                for to, source in job.fields.origins.items()
                if source == (_key(name),)
            )
            job.say(name, Outcome.CARRIED, to)
            continue
        job.say(name, option.outcome, option.to, option.why)
    for line in read.late:
        key = job.key("#SBATCH", line)
        job.fields.say(
            (key,),
            Outcome.CHANGED,
            "",
            f"sbatch does not read it: the first command is in line {read.first_command}",
        )
    for line in read.pbs:
        key = job.key("#PBS", line)
        job.fields.say(
            (key,),
            Outcome.NOT_CARRIED,
            "",
            "it is a directive of another system: write it as #SBATCH",
        )
    for word, line in read.stray:
        key = job.key(word, line)
        job.fields.say(
            (key,), Outcome.NOT_CARRIED, "", "it is no option, and sbatch stops reading there"
        )
