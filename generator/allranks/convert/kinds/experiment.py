"""Katib's Experiments as sweeps.

An Experiment runs a job for each of its trials, with the trial's parameters in the place of
``${trialParameters.NAME}``. The job is converted as it would be by itself; what is searched, how,
and what a trial is judged by become the section ``sweep``.

Katib ends an Experiment with its ``maxFailedTrialCount``-th failed trial, and a sweep with one more
than ``maxFailedTrials``. It judges a trial by the best value that it reported, and a sweep by the
last.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert import near_words, registry
from allranks.convert.chart_values import end_of_run, finish, trials
from allranks.convert.inputs import misspelt_keys
from allranks.convert.jobs.rewrite import Rewrite
from allranks.convert.kinds import search_spaces
from allranks.convert.pods import containers, pod_values, podsets
from allranks.convert.verdicts import (
    METADATA,
    Beside,
    Fields,
    Outcome,
    Rule,
    Rules,
    carried,
    changed,
    dotted,
    lost,
)
from allranks.errors import InputError
from allranks.k8s import fields as k8s
from allranks.yamlio import load

if TYPE_CHECKING:
    from collections.abc import Mapping

    from allranks.convert.documents.context import Context
    from allranks.convert.documents.document import Manifest
    from allranks.convert.verdicts import Conversion, FieldPath

_TEMPLATE: FieldPath = ("spec", "trialTemplate")
_SPEC: FieldPath = (*_TEMPLATE, "trialSpec")
_PARAMETERS: FieldPath = ("spec", "parameters")
_JUDGED = "a trial is judged by the last value that it reports"
_PRINT = "a sweep reads what a trial prints, or its termination message: print NAME=VALUE there"

FIELDS: tuple[Rule, ...] = (
    *METADATA,
    carried("spec.parameters[].name", "sweep.parameters.NAME"),
    changed("spec.parameters[].parameterType", "sweep.parameters.NAME", "the form of the space"),
    carried("spec.parameters[].feasibleSpace.min", "sweep.parameters.NAME.*.min"),
    carried("spec.parameters[].feasibleSpace.max", "sweep.parameters.NAME.*.max"),
    carried("spec.parameters[].feasibleSpace.step", "sweep.parameters.NAME.range.step"),
    carried("spec.parameters[].feasibleSpace.list[]", "sweep.parameters.NAME.values"),
    carried("spec.parameters[].feasibleSpace.distribution", "sweep.parameters.NAME"),
    carried("spec.objective.type", "sweep.objective.direction"),
    carried("spec.objective.goal", "sweep.objective.goal"),
    carried("spec.objective.objectiveMetricName", "sweep.objective.metric"),
    changed(
        "spec.objective.additionalMetricNames[]",
        "",
        "a sweep keeps what it is judged by; other metrics stay in the logs of the trials",
    ),
    changed("spec.objective.metricStrategies[].**", "sweep.objective", _JUDGED),
    carried("spec.algorithm.algorithmName", "sweep.search"),
    lost("spec.algorithm.algorithmSettings[].**", "the search has settings of its own"),
    carried("spec.earlyStopping.algorithmName", "sweep.earlyStopping.kind"),
    lost("spec.earlyStopping.algorithmSettings[].**", "the rule has no such setting"),
    carried("spec.parallelTrialCount", "sweep.parallel"),
    carried("spec.maxTrialCount", "sweep.trials"),
    changed(
        "spec.maxFailedTrialCount",
        "sweep.maxFailedTrials",
        "Katib ends with so many failed trials, and a sweep with one more than its number",
    ),
    changed("spec.resumePolicy", "", "every sweep can be resumed from its journal"),
    lost("spec.metricsCollectorSpec.**", _PRINT),
    lost("spec.nasConfig.**", "there is no search of architectures here"),
    carried("spec.trialTemplate.retain", "sweep.keep"),
    changed(
        "spec.trialTemplate.trialParameters[].**", "sweep.parameters", "${sweep.NAME} in a text"
    ),
    changed("spec.trialTemplate.primaryPodLabels.*", "", "a sweep reads rank 0, or the launcher"),
    changed(
        "spec.trialTemplate.primaryContainerName", "", "the program's container is trainer here"
    ),
    changed("spec.trialTemplate.successCondition", "", "a trial has succeeded when its run has"),
    changed("spec.trialTemplate.failureCondition", "", "a trial has failed when its run has"),
    carried("spec.trialTemplate.configMap.**", "the trial"),
    carried("spec.trialTemplate.trialSpec.**", "the trial"),
)
_RULES = Rules(FIELDS)

# Katib's algorithms: the search here, and what is other about it.
_SEARCHES = {
    "random": ("random", ""),
    "grid": ("grid", ""),
    "tpe": ("tpe", ""),
    "multivariate-tpe": ("tpe", "parameters are looked at by themselves, and not together"),
    "bayesianoptimization": ("GPSampler", "a Gaussian process of Optuna's"),
    "cmaes": ("CmaEsSampler", ""),
    "sobol": ("QMCSampler", "its sequence is Sobol's, too"),
    "hyperband": ("random", "what hyperband does is sweep.earlyStopping: bad trials end early"),
}
_REFUSED = {
    "enas": "it searches architectures, and tells a trial's program of them",
    "darts": "it searches architectures, and tells a trial's program of them",
    "pbt": "its trials go on from checkpoints of other trials",
    "simple-pbt": "its trials go on from checkpoints of other trials",
}
_DEFAULT_PARALLEL = 3
_DIRECTIONS = ("maximize", "minimize")
_SEED_MAX = 2**32 - 1
_LEAST_FACTOR = 2
# What Katib's median stopping has without settings.
# Source: kubeflow.org/docs/components/katib/early-stopping, "Median Stopping Rule".
_MEDIAN_STOP = {"minSteps": 4, "warmupTrials": 3}
# Katib's pattern of a line has a group for the name, and one for the value.
_GROUPS = 2
_TRIAL_SPEC = re.compile(r"\$\{trialSpec\.(\w+)(?:\[([^\]]*)\])?\}")
_PARAMETER = re.compile(r"\$\{trialParameters\.([^}]+)\}")


def convert(manifest: Manifest, context: Context) -> Conversion:
    """An Experiment as the values of a sweep.

    Args:
        manifest: the object.
        context: what else is known.

    Raises:
        InputError: its search or its trial has no form here.
    """
    fields = Fields(manifest, rules=_RULES, unknown="an Experiment has no such field")
    search = _search(fields)
    template, path = _trial_spec(fields, context)
    texts = _texts(fields, template)
    references = {match for text in trials.texts(template) for match in _PARAMETER.findall(text)}
    _check_parameters(references, texts)
    target = Rewrite(fields, trials.replaced(template, lambda text: _put(text, texts)))
    if path:
        target.also(path, ())
    target.name_after(fields)
    _primary(target, fields)
    inner = target.convert(_key(template, path), context)
    section = {"parameters": _parameters(fields, search, inner.values), **_section(fields, search)}
    spaces: dict[str, FieldPath] = {
        trials.parameter_name(str(item.get("name") or "")): (*_PARAMETERS, index, "feasibleSpace")
        for index, item in fields.items(*_PARAMETERS)
    }
    section = trials.bounded(fields, section, spaces, ("spec", "maxTrialCount"))
    trials.put(fields, inner.values, section, spaces)
    if fields.get("spec", "trialTemplate", "retain") is not True:
        # trial_controller.go deletes a trial's job when it is done, and its pods with it.
        end_of_run.take_back(fields)
    pod_values.labels(fields, ("metadata",), ())
    _metrics(fields)
    fields.note(
        f"start it with `{names.CLI} sweep run NAME -f FILE`: plain Helm has no search but a grid"
    )
    fields.note(f"{_JUDGED}, where Katib takes the best")
    return finish.conversion(fields, queue=inner.queue)


def trial(manifest: Manifest, context: Context) -> Manifest:
    """The job of an Experiment's trial, with ${sweep.NAME} for its parameters.

    Args:
        manifest: the Experiment.
        context: what else is known.

    Raises:
        InputError: it has none.
    """
    fields = Fields(manifest)
    template, _ = _trial_spec(fields, context)
    texts = _texts(fields, template)
    job: Manifest = trials.replaced(template, lambda text: _put(text, texts))
    return trials.named(job, fields.text("metadata", "name"))


def _primary(target: Rewrite, fields: Fields) -> None:
    """Tell which container of a Job runs the program, where the Experiment says it."""
    name = fields.text(*_TEMPLATE, "primaryContainerName")
    own = containers.of(target.manifest)
    container_names = list(dict.fromkeys(k8s.text(item, "name") for _, _, item in own))
    if name and container_names and name not in container_names:
        near = near_words.nearest_word(name, container_names)
        raise InputError(
            f"no container of the trial's job is called {name}, and Katib's trials fail without it",
            path=dotted((*_TEMPLATE, "primaryContainerName")),
            hint=f"did you mean {near}?" if near else f"write {' or '.join(container_names)}",
        )
    why = "the container of the program is called trainer here"
    fields.change((*_TEMPLATE, "primaryContainerName"), why)
    if name and target.manifest.get("kind") == "Job":
        key = podsets.DEFAULT_CONTAINER
        target.put(("spec", "template", "metadata", "annotations", key), name)


def _search(fields: Fields) -> str:
    """The search, after a look at what cannot be searched here."""
    algorithm = fields.text("spec", "algorithm", "algorithmName")
    path: FieldPath = ("spec", "algorithm", "algorithmName")
    if fields.has("spec", "nasConfig") or algorithm in _REFUSED:
        why = _REFUSED.get(algorithm, _REFUSED["enas"])
        raise InputError(
            f"{algorithm or 'nasConfig'} is not converted: {why}",
            path=".".join(map(str, path)),
            hint="keep Katib for it, or search the same parameters with tpe",
        )
    if algorithm and algorithm not in _SEARCHES:
        raise InputError(
            f"{algorithm} is no search that is known here",
            path=".".join(map(str, path)),
            hint=f"use one of {', '.join(_SEARCHES)}",
        )
    search, why = _SEARCHES.get(algorithm, ("random", ""))
    fields.carry(path, ("sweep", "search"), search, why)
    return search


def _trial_spec(fields: Fields, context: Context) -> tuple[Manifest, FieldPath]:
    """The job of a trial, and where it stands; () for another object than this."""
    spec = fields.get(*_SPEC)
    if isinstance(spec, dict):
        return spec, _SPEC
    here: FieldPath = (*_TEMPLATE, "configMap")
    name, key = (fields.text(*here, step) for step in ("configMapName", "templatePath"))
    if fields.has(*_TEMPLATE, "goTemplate"):
        raise InputError(
            "the job of a trial is a template of Go, as it was up to v1alpha3 of Katib",
            path="spec.trialTemplate.goTemplate",
            hint="write the job as trialSpec, with ${trialParameters.NAME} and trialParameters, as "
            "in v1beta1",
        )
    if not name:
        raise InputError(
            "the Experiment has no trialSpec",
            path="spec.trialTemplate",
            hint="write the whole object",
        )
    namespace = fields.text(*here, "configMapNamespace")
    document = context.find("ConfigMap", name, namespace=namespace)
    text = k8s.text(document.data, "data", key) if document is not None else ""
    documents = load.load_all(text, f"ConfigMap {name}: {key}") if text else []
    if not documents or not isinstance(documents[0], dict):
        raise InputError(
            f"the job of a trial is {key} of the ConfigMap {name}, which the input does not have",
            path="spec.trialTemplate.configMap",
            hint=f"give it as well: kubectl get configmap {name} -o yaml",
        )
    fields.beside.append(
        Beside("ConfigMap", name, False, "the job of a trial stands in the values")
    )
    return documents[0], ()


def _key(template: Manifest, path: FieldPath) -> tuple[str, str]:
    group = str(template.get("apiVersion") or "").rpartition("/")[0]
    key = (group, str(template.get("kind") or ""))
    place = ".".join(map(str, (*path, "kind")))
    if key in registry.REFUSED:
        why, instead = registry.REFUSED[key]
        raise InputError(f"a trial is a {key[1]}: {why}", path=place, hint=instead)
    if key not in registry.KINDS:
        raise InputError(
            f"a trial is {key[1] or 'an object without a kind'} of {group or 'no API group'}, "
            "which is not converted",
            path=place,
            hint="keep Katib for it",
        )
    return key


def _texts(fields: Fields, template: Manifest) -> dict[str, str]:
    """What stands for each of a trial's parameters, by its name."""
    texts: dict[str, str] = {}
    own = {str(item.get("name")) for _, item in fields.items("spec", "parameters")}
    for index, item in fields.items(*_TEMPLATE, "trialParameters"):
        reference = str(item.get("reference") or "")
        match = _TRIAL_SPEC.fullmatch(reference)
        if match is not None:
            texts[str(item.get("name"))] = _of_trial(match, template, fields)
        elif reference in own:
            texts[str(item.get("name"))] = trials.holder(trials.parameter_name(reference))
        else:
            raise InputError(
                f"{reference!r} is no parameter of the Experiment"
                if reference
                else "it names no parameter",
                path=f"spec.trialTemplate.trialParameters[{index}].reference",
                hint=f"name one of {', '.join(sorted(own))}" if own else "add spec.parameters",
            )
    return texts


def _of_trial(match: re.Match[str], template: Manifest, fields: Fields) -> str:
    """What a trial's own metadata are."""
    attribute, key = match[1], match[2] or ""
    if attribute == "Name":
        return trials.holder(trials.TRIAL)
    if attribute == "Namespace":
        return fields.text("metadata", "namespace") or "default"
    if attribute in ("Kind", "APIVersion"):
        return str(template.get("kind" if attribute == "Kind" else "apiVersion"))
    return k8s.text(template, "metadata", attribute.lower(), key)


def _check_parameters(references: set[str], texts: Mapping[str, str]) -> None:
    for name in sorted(references - set(texts)):
        raise InputError(
            f"the trial's job has ${{trialParameters.{name}}}, which is not among trialParameters",
            path="spec.trialTemplate.trialParameters",
            hint="name it there"
            + (f", or write it as one of {', '.join(sorted(texts))}" * bool(texts)),
        )


def _put(text: str, texts: Mapping[str, str]) -> str:
    return _PARAMETER.sub(lambda match: texts.get(match[1], match[0]), text)


def _parameters(
    fields: Fields, search: str, values: Mapping[str, Any]
) -> dict[str, dict[str, Any]]:
    """What is searched."""
    parameters: dict[str, dict[str, Any]] = {}
    places: dict[str, int] = {}
    names_in_values = trials.reached(values)
    resource = _setting(fields, "resource_name") if _algorithm(fields) == "hyperband" else ""
    for index, item in fields.items("spec", "parameters"):
        here: FieldPath = ("spec", "parameters", index)
        name = str(item.get("name") or "")
        own = trials.parameter_name(name)
        trials.refuse_twice(own, index, places)
        if own not in names_in_values:
            if trials.holder(own) in _all_texts(fields, own):
                raise InputError(
                    f"the parameter {name} stands where the job has a number, and not in a text of "
                    "its pods",
                    path=f"spec.parameters[{index}].name",
                    hint="have it in a command, in args or in env",
                )
            fields.leave(here, "no trial reads it, so that it would make no difference")
            continue
        if resource and name == resource:
            most = trials.number(fields.get(*here, "feasibleSpace", "max"))
            parameters[own] = {"values": [str(_setting(fields, "r_l") or most)]}
            fields.change(
                here, "each trial may use all of it: bad ones end early", "sweep.parameters"
            )
            continue
        parameters[own] = search_spaces.of(fields, here, search, _algorithm(fields))
        to = f"sweep.parameters.{own}"
        fields.keep((*here, "name"), to)
        fields.change((*here, "parameterType"), "it is the form of the space", to)
        if own != name:
            fields.change(
                (*here, "name"), f"a parameter's name is made of other characters: {own}", to
            )
    if not parameters:
        raise InputError(
            "no trial reads any of the parameters",
            path="spec.parameters",
            hint="use them in trialSpec",
        )
    return parameters


def _all_texts(fields: Fields, name: str) -> set[str]:
    """The holder of a parameter, where the job of a trial has any text with it."""
    references = {
        str(item.get("name"))
        for _, item in fields.items(*_TEMPLATE, "trialParameters")
        if trials.parameter_name(str(item.get("reference"))) == name
    }
    texts = trials.texts(fields.mapping(*_SPEC))
    placeholders = {match for text in texts for match in _PARAMETER.findall(text)}
    return {trials.holder(name)} if references & placeholders else set()


def _algorithm(fields: Fields) -> str:
    return fields.text("spec", "algorithm", "algorithmName")


def _setting(fields: Fields, name: str, section: str = "algorithm") -> str:
    for _, item in fields.items("spec", section, "algorithmSettings"):
        if item.get("name") == name:
            return str(item.get("value") or "")
    return ""


def _section(fields: Fields, search: str) -> dict[str, Any]:
    """How it is searched."""
    section: dict[str, Any] = {"search": search}
    for index, item in fields.items("spec", "algorithm", "algorithmSettings"):
        here: FieldPath = ("spec", "algorithm", "algorithmSettings", index)
        seed = trials.number(item.get("value"))
        if item.get("name") in ("random_state", "seed") and isinstance(seed, int) and seed >= 0:
            section["seed"] = seed % (_SEED_MAX + 1)
            fields.say(here, Outcome.CARRIED, "sweep.seed")
        elif (
            item.get("name") in ("resource_name", "r_l", "eta")
            and _algorithm(fields) == "hyperband"
        ):
            fields.change(
                here, "bad trials end early, and no budget is shared out", "sweep.earlyStopping"
            )
    parallel = fields.number("spec", "parallelTrialCount")
    section["parallel"] = _DEFAULT_PARALLEL if parallel is None else parallel
    if parallel is not None:
        fields.keep(("spec", "parallelTrialCount"), "sweep.parallel")
    most = fields.number("spec", "maxTrialCount")
    if most is not None and most > 0:
        section["trials"] = most
        fields.keep(("spec", "maxTrialCount"), "sweep.trials")
    elif fields.has("spec", "maxTrialCount"):
        raise InputError(
            f"{fields.get('spec', 'maxTrialCount')!r} is no number of trials",
            path="spec.maxTrialCount",
            hint="write how many trials there may be",
        )
    elif search != "grid":
        raise InputError(
            "the Experiment has no maxTrialCount, and a search would never end",
            path="spec.maxTrialCount",
            hint=misspelt_keys.question(fields.mapping("spec"), "maxTrialCount")
            or "write how many trials there may be",
        )
    most_failures = fields.number("spec", "maxFailedTrialCount")
    if most_failures is not None:
        section["maxFailedTrials"] = max(0, most_failures - 1)
    retain = fields.get("spec", "trialTemplate", "retain")
    if isinstance(retain, bool):
        fields.keep(("spec", "trialTemplate", "retain"), "sweep.keep")
        section["keep"] = "all" if retain else "none"
    objective = _objective(fields)
    return {**section, **objective, **_early(fields)}


def _objective(fields: Fields) -> dict[str, Any]:
    here: FieldPath = ("spec", "objective")
    kind, goal = fields.get(*here, "type"), fields.get(*here, "goal")
    metric = fields.text(*here, "objectiveMetricName")
    if not fields.has(*here):
        raise InputError(
            "the Experiment has no objective",
            path=dotted(here),
            hint=misspelt_keys.question(fields.mapping("spec"), "objective")
            or "write objective: {type: maximize, objectiveMetricName: accuracy}",
        )
    if not metric:
        raise InputError(
            "the objective has no name of a metric",
            path=dotted((*here, "objectiveMetricName")),
            hint=misspelt_keys.question(fields.mapping(*here), "objectiveMetricName")
            or "write objectiveMetricName: accuracy",
        )
    if kind not in _DIRECTIONS:
        raise InputError(
            f"{kind!r} is no direction" if kind else "the objective has no type",
            path=dotted((*here, "type")),
            hint=misspelt_keys.question(fields.mapping(*here), "type")
            or misspelt_keys.nearest_or_all(kind, _DIRECTIONS),
        )
    objective: dict[str, Any] = {"metric": metric, "direction": kind}
    fields.keep(("spec", "objective", "type"), "sweep.objective.direction")
    fields.keep(("spec", "objective", "objectiveMetricName"), "sweep.objective.metric")
    if trials.number(goal) is not None:
        objective["goal"] = trials.number(goal)
        fields.keep((*here, "goal"), "sweep.objective.goal")
    elif goal is not None:
        fields.leave((*here, "goal"), "it is no number")
    return {"objective": objective}


def _early(fields: Fields) -> dict[str, Any]:
    """Which trials end early."""
    if _algorithm(fields) == "hyperband":
        eta = trials.number(_setting(fields, "eta"))
        factor = eta if isinstance(eta, int) and eta >= _LEAST_FACTOR else 3
        if fields.has("spec", "earlyStopping"):
            fields.leave(("spec", "earlyStopping"), "a sweep has one rule, which is hyperband's")
        return {"earlyStopping": {"kind": "successiveHalving", "reductionFactor": factor}}
    name = fields.text("spec", "earlyStopping", "algorithmName")
    if not name:
        return {}
    here: FieldPath = ("spec", "earlyStopping", "algorithmName")
    if name != "medianstop":
        fields.leave(
            here, f"{name} is no rule here; sweep.earlyStopping has median, successiveHalving"
        )
        return {}
    early: dict[str, Any] = {"kind": "median", **_MEDIAN_STOP}
    fields.keep(here, "sweep.earlyStopping.kind")
    for index, item in fields.items("spec", "earlyStopping", "algorithmSettings"):
        keys = {"min_trials_required": "warmupTrials", "start_step": "minSteps"}
        key, value = keys.get(str(item.get("name"))), trials.number(item.get("value"))
        if key and isinstance(value, int):
            early[key] = max(value, 1 if key == "minSteps" else 0)
            path: FieldPath = ("spec", "earlyStopping", "algorithmSettings", index)
            fields.say(path, Outcome.CARRIED, f"sweep.earlyStopping.{key}")
    return {"earlyStopping": early}


def _metrics(fields: Fields) -> None:
    """Where the metric is read."""
    here: FieldPath = ("spec", "metricsCollectorSpec")
    kind = fields.text(*here, "collector", "kind") or "StdOut"
    if kind != "StdOut":
        reasons = {
            "None": "the program sends its metrics to Katib itself",
            "Push": "the program sends its metrics to Katib itself",
            "Custom": "a container of Katib's reads them",
        }
        why = reasons.get(kind, "they are in files, and a sweep reads none")
        fields.leave(here, f"{why}: have the program print NAME=VALUE")
        return
    fields.carry((*here, "collector", "kind"), ("sweep", "metrics", "from"), "stdout")
    formats = fields.get(*here, "source", "filter", "metricsFormat")
    if not isinstance(formats, list):
        return
    path: FieldPath = (*here, "source", "filter", "metricsFormat")
    metric = fields.text("spec", "objective", "objectiveMetricName")
    pattern = _pattern(str(formats[0]), metric) if len(formats) == 1 else None
    if pattern is None:
        fields.leave(path, "give sweep.metrics.regex with a named group for the metric")
    else:
        why = "the name of the metric stands in the pattern, and its value is a named group"
        fields.carry(path, ("sweep", "metrics", "regex"), pattern, why)


# What the names of metrics are made of, as a rule.
_LETTERS = r"[\w|-]"


def _pattern(pattern: str, metric: str) -> str | None:
    """Katib's pattern of a line, whose first group is a name and the second its value, as ours."""
    if not metric.isidentifier() or not metric.isascii() or pattern.count("(") < _GROUPS:
        return None
    groups = []
    start, depth = 0, 0
    for at, char in enumerate(pattern):
        if at and pattern[at - 1] == "\\":
            continue
        if char == "(":
            start = at if not depth else start
            depth += 1
        elif char == ")":
            depth -= 1
            if not depth:
                groups.append((start, at))
    if (
        depth
        or len(groups) < _GROUPS
        or any(pattern.startswith("(?", start) for start, _ in groups[:_GROUPS])
    ):
        return None
    (name, name_end), (value, _) = groups[0], groups[1]
    # Katib's group takes the whole of a name, and of val_loss no part that is called loss.
    letters = re.fullmatch(r"(\[[^\]]+\]|\\w)[+*]", pattern[name + 1 : name_end])
    before = f"(?<!{letters[1] if letters else _LETTERS})" if name == 0 else ""
    text = (
        f"{before}{pattern[:name]}{re.escape(metric)}{pattern[name_end + 1 : value]}"
        f"(?P<{metric}>{pattern[value + 1 :]}"
    )
    try:
        re.compile(text)
    except re.error:
        return None
    return text
