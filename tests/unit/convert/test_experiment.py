from __future__ import annotations

import re

import pytest

from allranks.convert.kinds import experiment
from tests.converted import DATA, lost, refusal, sample, text_as_jobs


def test_an_experiment_is_a_sweep() -> None:
    """The search, its bounds and what a trial is judged by are the sweep's."""
    sweep = sample("experiment.yaml", "rates").values["sweep"]
    assert ("tpe", 10, 8, 2, "all") == tuple(
        sweep[key] for key in ("search", "seed", "trials", "parallel", "keep")
    )
    assert {"metric": "accuracy", "direction": "maximize", "goal": 0.98} == sweep["objective"]
    assert {"kind": "median", "warmupTrials": 3, "minSteps": 5} == sweep["earlyStopping"]


def test_one_failed_trial_less() -> None:
    """Katib ends with the third failed trial, and a sweep with one more than it may have."""
    assert 2 == sample("experiment.yaml", "rates").values["sweep"]["maxFailedTrials"]


def test_the_parameters_have_their_spaces() -> None:
    """Each kind of space has its form; what no trial reads is left out, and that is said."""
    conversion = sample("experiment.yaml", "rates")
    assert {
        "lr": {"logUniform": {"min": 0.001, "max": 0.1}},
        "momentum": {"uniform": {"min": 0.5, "max": 0.9}},
        "layers": {"range": {"min": 2, "max": 8, "step": 2}},
        "width": {"intUniform": {"min": 16, "max": 64}},
        "optimizer": {"values": ["sgd", "adam"]},
    } == conversion.values["sweep"]["parameters"]
    assert "spec.parameters[5].name" in lost(conversion)


def test_placeholders_stand_where_they_stood() -> None:
    """A parameter is put in where the trial's job has it, and so is the trial's own name."""
    values = sample("experiment.yaml", "rates").values
    assert ["python", "train.py", "--lr=${sweep.lr}", "--momentum=${sweep.momentum}"] == values[
        "command"
    ][:4]
    assert {"WIDTH": "${sweep.width}", "TRIAL": "${sweep.trial}"} == values["env"]


def test_the_primary_container_runs_the_program() -> None:
    """The container that the Experiment names is the trainer, wherever it stands."""
    assert (
        "example.org/team/trainer"
        == sample("experiment.yaml", "rates").values["image"]["repository"]
    )


def test_a_pattern_of_lines_has_a_named_group() -> None:
    """Katib's pattern, whose groups are name and value, has the metric's name and a named group."""
    metrics = sample("experiment.yaml", "rates").values["sweep"]["metrics"]
    assert {"from": "stdout", "regex": r"{name: accuracy, value: (?P<accuracy>[0-9.]+)}"} == metrics


def test_a_trial_of_ranks_runs_under_torchrun() -> None:
    """A trial that is a PyTorchJob has its workload, and a grid its steps."""
    values = sample("experiment.yaml", "ranks").values
    trial = {"workload": "torchrun", "values": {"torchrun": {"maxRestarts": 0}}}
    assert (trial, 2) == (values["sweep"]["trial"], values["nodes"])
    assert {"range": {"min": 0.01, "max": 0.03, "step": 0.01}} == values["sweep"]["parameters"][
        "lr"
    ]


def _grid(spaces: str, most: int, kind: str = "grid") -> str:
    """An Experiment whose trials read a and b."""
    return (
        "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata: {name: grid}\nspec:\n"
        f"  algorithm: {{algorithmName: {kind}}}\n  maxTrialCount: {most}\n"
        "  objective: {type: minimize, objectiveMetricName: loss}\n"
        f"  parameters: {spaces}\n"
        "  trialTemplate:\n"
        "    trialParameters: [{name: a, reference: a}, {name: b, reference: b}]\n"
        "    trialSpec:\n"
        "      apiVersion: batch/v1\n      kind: Job\n"
        "      spec: {template: {spec: {restartPolicy: Never, containers: [{name: x, image: i:1,\n"
        "        command: [python, a.py, '${trialParameters.a}', '${trialParameters.b}']}]}}}\n"
    )


A = "{name: a, parameterType: categorical, feasibleSpace: {list: [u, v, u]}}"
B = "{name: b, parameterType: int, feasibleSpace: {min: '1', max: '3'}}"


@pytest.mark.parametrize("kind", ["grid", "random", "tpe"])
def test_no_more_trials_than_there_are_combinations(kind: str) -> None:
    """A maxTrialCount above the number of combinations is that number, and a twin is left out."""
    conversion = text_as_jobs(_grid(f"[{A}, {B}]", 12, kind)).conversions[0]
    assert [True] == ["one pod" in note for note in conversion.notes if "ranks of a trial" in note]
    assert not [note for note in conversion.notes if "sweep of one trial" in note]
    sweep = conversion.values["sweep"]
    assert (["u", "v"], 6) == (sweep["parameters"]["a"]["values"], sweep["trials"])
    assert {
        "spec.parameters[0].feasibleSpace.list[2]": "it is given twice, and is tried once",
        "spec.maxTrialCount": "there are 6 combinations, and each is tried once",
    } == {
        verdict.path: verdict.why for verdict in conversion.verdicts if "tried once" in verdict.why
    }


def test_trials_that_there_may_be_stay_as_many() -> None:
    """A maxTrialCount of fewer trials than combinations is carried as it is."""
    assert 5 == text_as_jobs(_grid(f"[{A}, {B}]", 5)).conversions[0].values["sweep"]["trials"]


@pytest.mark.parametrize(
    "space",
    ["min: '3', max: '1'", "min: '1', max: '1e300'", "min: '1', max: '3', step: '-1'"],
)
def test_a_space_that_no_sweep_has_is_refused_at_its_field(space: str) -> None:
    """What `validate` would say of a parameter is said of the field that it is made of."""
    parameter = f"{{name: b, parameterType: int, feasibleSpace: {{{space}}}}}"
    problem = refusal(_grid(f"[{A}, {parameter}]", 5))
    assert problem.path == "spec.parameters[1].feasibleSpace"
    assert problem.hint


def test_a_template_of_go_is_refused_by_its_name() -> None:
    """Katib's form up to v1alpha3 is named, and the one to write instead."""
    problem = refusal(
        "apiVersion: kubeflow.org/v1alpha3\nkind: Experiment\nmetadata: {name: a}\nspec:\n"
        "  algorithm: {algorithmName: random}\n"
        "  trialTemplate: {goTemplate: {rawTemplate: 'kind: Job'}}\n"
    )
    assert "spec.trialTemplate.goTemplate" == problem.path


def test_an_optimization_job_is_a_sweep_too() -> None:
    """Trainer's OptimizationJob puts its parameters in by another sign."""
    conversion = sample("experiment.yaml", "rates-of-trainer")
    values = conversion.values
    assert ["--lr=${sweep.lr}", "--batch=${sweep.batch}"] == values["command"][3:5]
    assert {"min": 8, "max": 64} == values["sweep"]["parameters"]["batch"]["intUniform"]
    assert ({"team": "vision"}, set()) == (values["labels"], lost(conversion))


def test_an_objective_behind_the_first_is_said_to_be_too_many() -> None:
    """A sweep has one, and its trials are judged by the first."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8")
    second = "{metric: loss, direction: Minimize}, {metric: acc, direction: Maximize}"
    jobs = text_as_jobs(text.replace("{metric: loss, direction: Minimize}", second)).conversions
    [conversion] = [job for job in jobs if job.name == "rates-of-trainer"]
    whys = {own.path: own.why for own in conversion.lost}
    assert {
        f"spec.objectives[1].{key}": "a sweep has one objective, which is the first"
        for key in ("metric", "direction")
    } == whys


@pytest.mark.parametrize("algorithm", ["enas", "darts", "pbt"])
def test_a_search_that_there_is_not_is_refused(algorithm: str) -> None:
    """A search of architectures, or of populations, is refused in a sentence."""
    problem = refusal(
        "apiVersion: kubeflow.org/v1beta1\nkind: Experiment\nmetadata: {name: a}\n"
        f"spec: {{algorithm: {{algorithmName: {algorithm}}}}}\n"
    )
    assert problem.message.startswith(f"{algorithm} is not converted")
    assert "keep Katib for it" in problem.hint


SPACE = """\
apiVersion: kubeflow.org/v1beta1
kind: Experiment
metadata: {name: a}
spec:
  objective: {type: maximize, objectiveMetricName: acc}
  algorithm: {algorithmName: NAME, algorithmSettings: [{name: resource_name, value: steps},
    {name: r_l, value: "9"}]}
  earlyStopping: {algorithmName: medianstop, algorithmSettings: [{name: start_step, value: "3"}]}
  maxTrialCount: 4
  parameters: [{name: steps, parameterType: int, feasibleSpace: {min: "1", max: "9"}}]
  trialTemplate: {trialParameters: [{name: steps, reference: steps}], trialSpec: {
    apiVersion: batch/v1, kind: Job, spec: {template: {spec: {containers: [{name: c, image: i,
    command: [./a, "${trialParameters.steps}"]}]}}}}}
"""


def test_a_sweep_ends_bad_trials_by_one_rule() -> None:
    """Hyperband's own, and what the Experiment asks for besides is not carried."""
    conversion = text_as_jobs(SPACE.replace("NAME", "hyperband")).conversions[0]
    assert "successiveHalving" == conversion.values["sweep"]["earlyStopping"]["kind"]
    why = {verdict.path: verdict.why for verdict in conversion.lost}
    name = "spec.earlyStopping.algorithmName"
    assert "a sweep has one rule, which is hyperband's" == why[name]


def test_a_part_of_a_grid_is_its_beginning() -> None:
    """Which of the combinations are tried is another choice than Katib's, and said."""
    conversion = text_as_jobs(SPACE.replace("NAME", "grid")).conversions[0]
    why = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert "of 9 combinations the first 4 are tried" in why["spec.maxTrialCount"]


def test_what_katibs_bayesian_search_draws_from_is_said() -> None:
    """Its releases took another space than the Experiment names."""
    space = "{name: a, parameterType: double, feasibleSpace: {min: '0.001', max: '0.1'}}"
    steps = "{name: b, parameterType: int, feasibleSpace: {min: '8', max: '32', step: '8'}}"
    for kind, is_other in (("bayesianoptimization", True), ("random", False)):
        [conversion] = text_as_jobs(_grid(f"[{space}, {steps}]", 6, kind)).conversions
        whys = [verdict.why for verdict in conversion.verdicts]
        assert any("orders of magnitude" in why for why in whys) is is_other
        assert any("did not read it" in why for why in whys) is is_other


def test_a_parameter_that_no_list_has_is_asked_for() -> None:
    """The fix names those that the list has, and nothing where there is no list."""
    text = _grid(f"[{A}, {B}]", 6, "random")
    without = text.replace(
        "    trialParameters: [{name: a, reference: a}, {name: b, reference: b}]\n", ""
    )
    assert "name it there" == refusal(without).hint
    other = text.replace("${trialParameters.b}", "${trialParameters.c}")
    assert "name it there, or write it as one of a, b" == refusal(other).hint


@pytest.mark.parametrize(
    ("settings", "expected"),
    [("[]", (4, 3)), ('[{name: start_step, value: "7"}]', (7, 3))],
)
def test_median_stopping_has_katibs_numbers(settings: str, expected: tuple[int, int]) -> None:
    """Without settings Katib judges after four reports and three trials, and so does the sweep."""
    text = SPACE.replace("NAME", "random").replace('[{name: start_step, value: "3"}]', settings)
    early = text_as_jobs(text).conversions[0].values["sweep"]["earlyStopping"]
    assert ("median", *expected) == (early["kind"], early["minSteps"], early["warmupTrials"])


@pytest.mark.parametrize(
    ("pattern", "line", "value"),
    [
        (r"([\w|-]+)\s*=\s*([+-]?\d*(\.\d+)?)", "val_loss=3 loss = 0.5", "0.5"),
        (r"(\w+)=(\d+)", "val_loss=3 loss=5", "5"),
        (r"(.*)=(\d+)", "val-loss=3 loss=5", "5"),
        (r"x([a-z]+)=(\d+)", "xloss=5", "5"),
    ],
)
def test_a_metric_whose_name_another_ends_with_is_not_taken_for_it(
    pattern: str, line: str, value: str
) -> None:
    """Katib takes the whole of a name."""
    match = re.search(experiment._pattern(pattern, "loss") or "", line)
    assert match is not None
    assert value == match["loss"]


@pytest.mark.parametrize("retain", [True, False])
def test_katib_ends_the_pods_of_a_trial_with_its_job(retain: bool) -> None:
    """That the operator lets others go on holds where the trial's job is kept."""
    text = _grid(f"[{A}, {B}]", 2)
    head, _, _ = text.partition("    trialSpec:\n")
    spec = "{template: {spec: {containers: [{name: tensorflow, image: i:1, command: [python, "
    spec += "a.py, '${trialParameters.a}', '${trialParameters.b}']}]}}, replicas: 2}"
    text = f"{head}    retain: {str(retain).lower()}\n    trialSpec:\n"
    text += "      {apiVersion: kubeflow.org/v1, kind: TFJob, spec: {tfReplicaSpecs: {Worker: "
    text += f"{spec}}}}}}}\n"
    notes = text_as_jobs(text).conversions[0].notes
    assert retain == any("without a cleanPodPolicy" in note for note in notes)


def test_a_name_that_two_parameters_have_is_refused() -> None:
    """The space of the first would be gone without a word."""
    steps = '{name: steps, parameterType: int, feasibleSpace: {min: "1", max: "9"}}'
    problem = refusal(SPACE.replace("NAME", "random").replace(steps, f"{steps}, {steps}"))
    assert ("spec.parameters[1].name", "spec.parameters[0] is called steps as well") == (
        problem.path,
        problem.message,
    )


@pytest.mark.parametrize(
    ("old", "new", "path", "message", "hint"),
    [
        ("type: maximize", "type: maximise", "type", "'maximise' is no direction", "maximize?"),
        ("type: maximize", "typ: maximize", "type", "the objective has no type", "is typ: did"),
        (
            "objectiveMetricName",
            "objectiveMetricNam",
            "objectiveMetricName",
            "has no name of a metric",
            "did you mean objectiveMetricName?",
        ),
        ("  objective:", "  objectiv:", "", "has no objective", "did you mean objective?"),
    ],
)
def test_the_part_of_an_objective_that_is_wrong_is_named(
    old: str, new: str, path: str, message: str, hint: str
) -> None:
    """All of them were answered with an Experiment that has no objective."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8").split("---")[0]
    assert old in text
    problem = refusal(text.replace(old, new, 1))
    assert f"spec.objective.{path}".rstrip(".") == problem.path
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("line", "message", "hint"),
    [
        ("maxTrialCount: none", "'none' is no number of trials", "how many trials"),
        ("maxTrialCont: 8", "has no maxTrialCount", "did you mean maxTrialCount?"),
        ("parallelTrials: 8", "has no maxTrialCount", "how many trials"),
    ],
)
def test_a_number_of_trials_that_is_none_is_said(line: str, message: str, hint: str) -> None:
    """parallelTrialCount, which is there, is no misspelt maxTrialCount."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8").split("---")[0]
    problem = refusal(text.replace("maxTrialCount: 8", line))
    assert "spec.maxTrialCount" == problem.path
    assert message in problem.message
    assert hint in problem.hint


@pytest.mark.parametrize(
    ("kind", "message", "hint"),
    [
        ("parameterType: dbl", "'dbl' is no type of a parameter", "did you mean double?"),
        ("parameterType: 7", "7 is no type", "write double, int, discrete or categorical"),
        ("parameterTipe: double", "it has no parameterType", "there is parameterTipe"),
    ],
)
def test_a_type_of_parameters_that_katib_has_not_is_refused(
    kind: str, message: str, hint: str
) -> None:
    """Any other word was taken for double."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8").split("---")[0]
    problem = refusal(text.replace("parameterType: double", kind, 1))
    assert "spec.parameters[0].parameterType" == problem.path
    assert message in problem.message
    assert hint in problem.hint


def test_a_goal_that_is_no_number_is_lost_for_that() -> None:
    """It was lost for no reason that a person could see."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8").split("---")[0]
    [conversion] = text_as_jobs(text.replace("goal: 0.98", "goal: high")).conversions
    [verdict] = [own for own in conversion.lost if own.path == "spec.objective.goal"]
    assert "it is no number" == verdict.why


def test_a_primary_container_that_is_not_there_is_refused() -> None:
    """Katib's webhook lets no pod of a trial through then."""
    text = (DATA / "experiment.yaml").read_text(encoding="utf-8").split("---")[0]
    problem = refusal(text.replace("primaryContainerName: trainer", "primaryContainerName: trainr"))
    assert "spec.trialTemplate.primaryContainerName" == problem.path
    assert "did you mean trainer?" == problem.hint
