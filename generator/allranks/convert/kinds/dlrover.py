"""An ElasticJob of DLRover as values of the elastic chart, with the ScalePlans beside it."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.chart_values import finish
from allranks.convert.inputs import misspelt_keys
from allranks.convert.jobs import job_program, roles, run_policy
from allranks.convert.pods import pod_values
from allranks.convert.programs import commands, references, torchrun_words
from allranks.convert.verdicts import (
    METADATA,
    Beside,
    Conversion,
    Fields,
    Named,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.pods.pod_values import PodTemplate
    from allranks.convert.verdicts import FieldPath

_SPECS: FieldPath = ("spec", "replicaSpecs")
_AT = "spec.replicaSpecs.*"
_MASTER: FieldPath = (*_SPECS, names.EDL_MASTER)
_NAMES = {role: role for role in ("worker", "ps", "chief", "evaluator")}
_BY_MASTER = "the master decides how many there are"
FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.distributionStrategy", "elastic.strategy"),
    changed("spec.optimizeMode", "elastic.auto", "allranks' own master decides for its job alone"),
    changed("spec.brainService", "", "allranks' own master decides without one"),
    carried("spec.enableElasticScheduling", "elastic.auto"),
    lost("spec.enableDynamicSharding", "the run's master hands out no shards: the sampler does"),
    carried("spec.resourceLimits.*", "elastic.auto.limits"),
    carried("spec.envs.**", "env"),
    carried("spec.suspend", "runPolicy.suspend"),
    carried(f"{_AT}.replicas", "nodes, or elastic.roles.*.replicas"),
    carried(f"{_AT}.minReplicas", "elastic.auto.minWorkers"),
    carried(f"{_AT}.maxReplicas", "elastic.auto.maxWorkers"),
    carried(f"{_AT}.restartCount", "runPolicy.backoffLimit"),
    changed(f"{_AT}.restartPolicy", "runPolicy.backoffLimit", "a pod that fails is replaced"),
    carried(f"{_AT}.restartTimeout", "elastic.auto.policy.pendingSeconds"),
    carried(f"{_AT}.autoScale", "elastic.auto"),
    lost(f"{_AT}.priority", "name a priority class in elastic.roles.*.podTemplate"),
    carried(f"{_AT}.BatchScheduler", "scheduling.dialect"),
    carried(f"{_AT}.batchScheduler", "scheduling.dialect"),
    lost(f"{_AT}.criticalNodes.**", "all workers may be replaced alike"),
    *pod_values.fields_at(f"{_AT}.template"),
)
_RULES = Rules(FIELDS)
_STRATEGIES = {
    "allreducestrategy": ("AllreduceStrategy", "pytorch"),
    "parameterserverstrategy": ("ParameterServerStrategy", "tensorflow"),
    "": ("AllreduceStrategy", "pytorch"),
}


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An ElasticJob as values.

    Args:
        manifest: the object.
        context: what else is known, such as its ScalePlans.

    Raises:
        InputError: no chart trains like that, or it has no workers.
    """
    fields = Fields(manifest, {}, _RULES, "an ElasticJob has no such field")
    strategy, framework = _strategy(fields)
    pod_values.labels(fields, ("metadata",), ())
    # Its master keeps the names of roles as they are typed.
    _check_case(fields)
    own_roles = roles.of_specs(fields, _SPECS, _NAMES, 0, keep_empty=True)
    count_of_plan = _plan_count(fields, context)
    own_roles = [
        replace(role, count=count_of_plan) if role.name == roles.WORKER and not role.count else role
        for role in own_roles
    ]
    if strategy == "ParameterServerStrategy":
        own_roles = _without_number(fields, own_roles)
    own_roles = [role if role.count else replace(role, why=_BY_MASTER) for role in own_roles]
    if strategy == "AllreduceStrategy":
        for role in own_roles:
            if role.name != roles.WORKER:
                fields.leave(role.replicas[:-1], f"with {strategy} there are workers alone")
        own_roles = [role for role in own_roles if role.name == roles.WORKER]
    if not any(role.name == roles.WORKER for role in own_roles):
        raise InputError(
            "the ElasticJob has no workers",
            path="spec.replicaSpecs",
            hint="add spec.replicaSpecs.worker with its template",
        )
    fields.put(("elastic", "mode"), "auto")
    templates = roles.put(fields, framework, own_roles, context, ("main",))
    fields.note(_BY_OPERATOR)
    fields.carry(("spec", "distributionStrategy"), ("elastic", "strategy"), strategy)
    if fields.text("spec", "distributionStrategy") not in ("", strategy):
        # Source: python/master/node/dist_job_manager.py of intelligent-machine-learning/dlrover.
        why = f"DLRover's master knows {strategy} alone, and ends at another spelling"
        fields.change(("spec", "distributionStrategy"), why, "elastic.strategy")
    if strategy == "AllreduceStrategy":
        _processes(fields, templates[roles.WORKER], context)
    else:
        for template in templates.values():
            _own_master(fields, template)
    for role in own_roles:
        _replicas(fields, role, templates[role.name])
    _say_of_unsized(fields, templates)
    _switches(fields, own_roles)
    _limits(fields)
    _envs(fields)
    if isinstance(fields.get("spec", "suspend"), bool):
        fields.carry(("spec", "suspend"), ("runPolicy", "suspend"))
    _master(fields)
    _plans(fields, context)
    return finish.conversion(fields)


def _without_number(fields: Fields, own_roles: list[roles.Role]) -> list[roles.Role]:
    """The roles of a job with parameter servers, with what DLRover makes of those without a number.

    Its master makes one of the workers the chief, with the chief's template
    (dlrover/python/master/resource/job.py, adjust_worker_for_estimator), and no evaluator.
    """
    result = []
    takes_worker = False
    for role in own_roles:
        if role.name == names.ROLE_CHIEF and not role.count:
            takes_worker = True
            result.append(replace(role, count=1))
            fields.note(
                "the chief has no replicas, so that one of the workers is the chief, as DLRover's "
                "master has it; it has a template of its own, and is counted apart from them here"
            )
        elif role.name == names.ROLE_EVALUATOR and not role.count:
            fields.change(role.replicas[:-1], "without replicas there are none of them")
        else:
            result.append(role)
    return [
        replace(role, count=role.count - 1, why="one of them is the chief, which is counted apart")
        if takes_worker and role.name == roles.WORKER and role.count > 1
        else role
        for role in result
    ]


def _check_case(fields: Fields) -> None:
    """Refuse a role in other letters, which DLRover's master does not know: ``PS``."""
    for key in fields.mapping(*_SPECS):
        if key not in _NAMES and str(key).lower() in _NAMES:
            raise InputError(
                f"DLRover knows no role {key}",
                path=dotted((*_SPECS, key)),
                hint=f"write {str(key).lower()}",
            )


def _strategy(fields: Fields) -> tuple[str, str]:
    strategy = str(fields.get("spec", "distributionStrategy") or "")
    if strategy.lower() not in _STRATEGIES:
        is_own = strategy.lower() == "customstrategy"
        raise InputError(
            f"the strategy {strategy} leaves it to the job's own master how it trains"
            if is_own
            else f"{strategy} is no strategy of DLRover's",
            path="spec.distributionStrategy",
            hint="only AllreduceStrategy and ParameterServerStrategy are converted"
            if is_own
            else misspelt_keys.nearest_or_all(
                strategy, ("AllreduceStrategy", "ParameterServerStrategy")
            ),
        )
    return _STRATEGIES[strategy.lower()]


def _processes(fields: Fields, pod: PodTemplate, context: Context) -> None:
    """Take dlrover-run and its flags off what each process runs."""
    program = job_program.program(fields, pod, context)
    if program.runner is not commands.Runner.TORCHRUN:
        _once(fields, pod, program)
        return
    source: FieldPath = (*pod.container, "command" if pod.command else "args")
    fields.put(("command",), list(program.command), source)
    if program.setup:
        fields.put(("setup",), program.setup, source)
    if program.working_dir:
        fields.put(("workingDir",), program.working_dir, source)
    for key in ("command", "args"):
        fields.change((*pod.container, key), "; ".join(program.changes), "command")
    count = references.number(program.options.get("nproc-per-node", "1"), pod.variables)
    if count is not None and count != (pod.gpus or 1):
        fields.put(("procsPerNode",), count)
    nodes, nnodes = fields.values.get("nodes", 0), program.options.get("nnodes", "")
    first, last = references.ends(nnodes)
    least = references.number(first, pod.variables)
    if first != last and least:
        fields.put(("elastic", "auto", "minWorkers"), least, source)
        fields.put(("elastic", "auto", "maxWorkers"), max(least, nodes), source)
    why = job_program.other_nodes(nnodes, pod.variables, nodes)
    losses = (f"its dlrover-run has {why}",) if why else ()
    if losses := (*losses, *_options_not_carried(program)):
        fields.leave(source, "; ".join((*losses, *program.changes[1:])))
    for note in program.notes:
        fields.note(note)
    fields.note(
        "the processes are started by allranks' own agent; a script that imports dlrover finds no "
        "master of DLRover"
    )


def _options_not_carried(program: commands.Program) -> tuple[str, ...]:
    """What to say of the options of a dlrover-run that neither the chart nor its agent has."""
    options = [
        f"--{name}"
        for name in program.options
        if torchrun_words.TORCHRUN_OPTIONS.get(name) or name in _FLAGS_OF_TORCHRUN
        if name not in ("rdzv-backend", "max-restarts")
    ]
    losses = [_RESTARTS_OF_AGENT] if "max-restarts" in program.options else []
    if options:
        losses.append(f"its {', '.join(options)}: allranks' own agent reads no such option")
    own_words = tuple(f"{option} " for option in options)
    return (*losses, *(reason for reason in program.lost if not reason.startswith(own_words)))


_FLAGS_OF_TORCHRUN = ("run-path", "virtual-local-rank")
_RESTARTS_OF_AGENT = (
    "its --max_restarts: runPolicy.backoffLimit says how many failures of a worker in a "
    "row are tried again"
)
_BY_OPERATOR = (
    "allranks' operator makes its pods (`allranks operator install`), from an object of DLRover's "
    "kind ElasticJob: let no operator of DLRover's look at the same namespace"
)


def _own_master(fields: Fields, pod: PodTemplate) -> None:
    """Say of a program of DLRover's own that it asks DLRover's master."""
    if any(_DLROVER.search(word) for word in pod.words):
        for key in ("command", "args"):
            fields.leave(
                (*pod.container, key),
                "the values have it as it is, and it runs a module of DLRover's, which finds no "
                "master of DLRover: run the training itself, which reads TF_CONFIG",
            )


_DLROVER = re.compile(r"(?<![\w./-])dlrover\.(?!git)")


def _once(fields: Fields, pod: PodTemplate, program: commands.Program) -> None:
    """Have each pod run once what is no torchrun, as DLRover did."""
    if pod.gpus > 1:
        fields.put(("procsPerNode",), 1, pod.container)
    scripts = commands.shell_scripts(program.command)
    if program.is_nested:
        for key in ("command", "args"):
            fields.leave((*pod.container, key), _OWN_LAUNCHER)
    elif scripts:
        fields.note(
            f"what {scripts[-1]} runs is not known: each pod runs it once, and a dlrover-run in it "
            "finds no master of DLRover: make that the container's command"
        )


_OWN_LAUNCHER = (
    "it starts its processes itself, which find no master of DLRover, and allranks' agent starts "
    "it: have dlrover-run be the last of its commands"
)


def _asks(pod: PodTemplate) -> bool:
    """Whether the pods of a template ask for anything that a limit can be divided by."""
    return pod.gpus > 0 or any(piece.to[:1] == ("resources",) for piece in pod.pieces)


def _say_of_unsized(fields: Fields, templates: Mapping[str, PodTemplate]) -> None:
    """Say of pods that ask for nothing that DLRover's master chose what they have.

    Source: dlrover/python/master/resource/local_optimizer.py, _generate_job_create_resource.
    """
    unsized = [name for name, pod in templates.items() if not _asks(pod)]
    if unsized and fields.mapping("spec", "resourceLimits"):
        fields.note(
            f"the pods of {' and '.join(unsized)} ask for nothing: DLRover's master chose their "
            "CPU and memory, within resourceLimits; here nobody does: write "
            "resources.perPod.requests"
        )


def _replicas(fields: Fields, role: roles.Role, pod: PodTemplate) -> None:
    here = role.replicas[:-1]
    is_worker = role.name == roles.WORKER
    for key, to in (("minReplicas", "minWorkers"), ("maxReplicas", "maxWorkers")):
        amount = fields.number(*here, key)
        if is_worker and amount:
            fields.carry((*here, key), ("elastic", "auto", to), amount)
        elif amount is not None:
            fields.change((*here, key), _BY_MASTER)
    auto = fields.get(*here, "autoScale")
    if auto is False and is_worker:
        _fix_workers(fields, here, role.count, (*here, "autoScale"))
        fields.say((*here, "autoScale"), Outcome.CARRIED, "elastic.auto")
    elif auto is True and is_worker and not _asks(pod) and not fields.number(*here, "maxReplicas"):
        fields.leave((*here, "autoScale"), _WITHOUT_MOST)
    elif auto is True and is_worker:
        fields.say((*here, "autoScale"), Outcome.CARRIED, "elastic.auto")
    else:
        fields.change((*here, "autoScale"), "the master changes the number of workers alone")
    _restarts(fields, here, is_worker=is_worker)
    if fields.get(*here, "priority") in ("", None):
        fields.change((*here, "priority"), "it is empty")
    for key in ("BatchScheduler", "batchScheduler"):
        if fields.get(*here, key) == "volcano":
            fields.carry((*here, key), ("scheduling", "dialect"), "volcano")
    run_policy.restart_policy(fields, (*here, "restartPolicy"), gives_up=False)


_WITHOUT_MOST = (
    "its number stays what it is: nothing says how many workers there may be, as they ask for "
    "nothing that resourceLimits could be divided by: write maxReplicas, or their resources"
)


def _fix_workers(fields: Fields, here: FieldPath, count: int, source: FieldPath) -> None:
    """Let the number of workers stay as it is.

    Args:
        fields: the object.
        here: the workers' replica spec.
        count: how many they are.
        source: the field that says that they stay as many.
    """
    for key, to in (("minReplicas", "minWorkers"), ("maxReplicas", "maxWorkers")):
        fields.put(("elastic", "auto", to), count, source)
        if fields.number(*here, key) not in (None, count):
            why = f"with {source[-1]}: false the workers stay {count}"
            fields.change((*here, key), why, f"elastic.auto.{to}")


def _restarts(fields: Fields, here: FieldPath, *, is_worker: bool) -> None:
    count = fields.number(*here, "restartCount")
    if count is not None and is_worker:
        fields.carry((*here, "restartCount"), ("runPolicy", "backoffLimit"), count)
    elif count is not None:
        fields.change(
            (*here, "restartCount"), "the workers' is that of all", "runPolicy.backoffLimit"
        )
    seconds = fields.number(*here, "restartTimeout")
    if seconds and is_worker:
        fields.carry(
            (*here, "restartTimeout"), ("elastic", "auto", "policy", "pendingSeconds"), seconds
        )
    else:
        fields.change((*here, "restartTimeout"), "there is no limit", "elastic.auto.policy")


def _switches(fields: Fields, own_roles: list[roles.Role]) -> None:
    """What the job as a whole switches on and off."""
    if fields.get("spec", "enableDynamicSharding") is False:
        fields.change(("spec", "enableDynamicSharding"), "it is false")
    here: FieldPath = ("spec", "enableElasticScheduling")
    if fields.get(*here) is False:
        worker = next(role for role in own_roles if role.name == roles.WORKER)
        _fix_workers(fields, worker.replicas[:-1], worker.count, here)
    if isinstance(fields.get(*here), bool):
        fields.say(here, Outcome.CARRIED, "elastic.auto")


def _limits(fields: Fields) -> None:
    for key, amount in fields.mapping("spec", "resourceLimits").items():
        here: FieldPath = ("spec", "resourceLimits", key)
        if key in ("cpu", "memory"):
            fields.carry(here, ("elastic", "auto", "limits", key), str(amount))
        elif key in ("gpu", "nvidia.com/gpu") and fields.number(*here) is not None:
            fields.carry(here, ("elastic", "auto", "limits", "gpu"), fields.number(*here))
        else:
            fields.leave(here, "only cpu, memory and gpu are limited")


def _envs(fields: Fields) -> None:
    for key, entry in fields.mapping("spec", "envs").items():
        here: FieldPath = ("spec", "envs", key)
        if isinstance(entry, dict) and isinstance(entry.get("name"), str) and entry["name"]:
            key = entry["name"]  # noqa: PLW2901 - what the pods are given
        if pod_values.is_set_by_job(str(key), "elastic", fields.values["elastic"]):
            fields.change(here, f"the job sets {key} itself, for each process")
            continue
        value: Any = entry
        if isinstance(entry, dict):
            value = entry.get("value")
            if isinstance(entry.get("valueFrom"), dict):
                value = {"valueFrom": entry["valueFrom"]}
        if value is not None and not isinstance(value, dict):
            value = str(value)
        fields.put(("env", str(key)), "" if value is None else value, here)
        fields.say(here, Outcome.CARRIED, f"env.{key}")


def _master(fields: Fields) -> None:
    """The master: allranks' own where the job's is DLRover's, and else as it is."""
    if not fields.mapping(*_MASTER):
        return
    fields.change((*_MASTER, "template"), _OWN_MASTER, "elastic.auto.master")
    fields.change((*_MASTER, "replicas"), "there is one master", "elastic.auto.master")
    for key in ("autoScale", "priority", "restartCount", "restartTimeout"):
        fields.change((*_MASTER, key), "the operator keeps the master alive", "elastic.auto.master")
    pod = pod_values.read(fields, (*_MASTER, "template"), ("main",))
    to: FieldPath = ("elastic", "auto", "master")
    is_foreign = pod.words and "dlrover" not in " ".join(pod.words)
    if is_foreign:
        source: FieldPath = (*pod.container, "command" if pod.command else "args")
        fields.put((*to, "command"), list(pod.words), source)
        fields.put((*to, "image"), fields.text(*pod.container, "image"), (*pod.container, "image"))
    for key in ("command", "args"):
        fields.change(
            (*pod.container, key) if pod.container else _MASTER, _OWN_MASTER, "elastic.auto.master"
        )
    for piece in pod.pieces:
        place = pod_values.at_role(to, piece.to)
        if place is not None:
            place = tuple(Named("main") if step == pod_values.TRAINER else step for step in place)
            fields.put(place, piece.value, piece.source)
            fields.say(piece.source, Outcome.CARRIED, ".".join(map(str, place)))
        else:
            fields.change(piece.source, _OWN_MASTER, "elastic.auto.master")


_OWN_MASTER = "allranks' own master leads the job, in its own image"


def _own_plans(fields: Fields, context: Context) -> list[Any]:
    name = fields.text("metadata", "name")
    return [
        plan
        for plan in context.objects(names.SCALE_PLAN, group=names.ELASTIC_GROUP)
        if isinstance(plan.data.get("spec"), dict) and plan.data["spec"].get("ownerJob") == name
    ]


def _plan_count(fields: Fields, context: Context) -> int:
    """The workers that the first plan of a job asks for, where the job itself says nothing."""
    for plan in _own_plans(fields, context):
        of_plan = Fields(plan.data)
        count = of_plan.number("spec", "replicaResourceSpecs", "worker", "replicas")
        if count:
            return count
    return 0


def _plans(fields: Fields, context: Context) -> None:
    for plan in _own_plans(fields, context):
        labels = Fields(plan.data).mapping("metadata", "labels")
        manual = labels.get(names.SCALE_TYPE) == "manual"
        why = (
            "it asks for another size: `allranks scale` does so, or apply it when the run is there"
            if manual
            else "a master made it, and the run's own makes its own"
        )
        fields.beside.append(Beside(plan.kind, plan.name, manual, why))
