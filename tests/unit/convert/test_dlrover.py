"""ElasticJob, and the ScalePlans beside it: DLRover's jobs as jobs of the elastic chart."""

from __future__ import annotations

from collections import Counter

import pytest

from allranks.convert import registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document
from allranks.convert.original import dlrover
from allranks.convert.verdicts import Outcome
from tests.converted import DATA, documents, lost, refusal, text_as_jobs

DOCUMENTS = {
    document.name: document
    for document in documents((DATA / "elasticjob.yaml").read_text(encoding="utf-8"))
}


def test_an_elastic_job() -> None:
    """dlrover-run is taken off, the range is the master's, limits and envs are the job's."""
    values = registry.convert_document(DOCUMENTS["gpt"], Context()).values
    elastic = values["elastic"]
    assert (
        ["python3", "-u", "train.py", "--batch", "4"],
        "auto",
        {"cpu": "100", "memory": "400Gi", "gpu": 16},
        (1, 2, 600),
    ) == (
        values["command"],
        elastic["mode"],
        elastic["auto"]["limits"],
        (
            elastic["auto"]["minWorkers"],
            elastic["auto"]["maxWorkers"],
            elastic["auto"]["policy"]["pendingSeconds"],
        ),
    )


def test_a_plan_says_how_many_where_the_job_does_not() -> None:
    """The first plan is the size of a job without one; the plan itself is named."""
    plan = DOCUMENTS["gpt-scaleplan-0"]
    source = DOCUMENTS["gpt"].data
    worker = dict(source["spec"]["replicaSpecs"]["worker"])
    del worker["replicas"]
    spec = {"replicaSpecs": {"worker": worker}}
    job = Document({**source, "spec": spec})
    result = registry.convert_all([job, plan], Context())
    assert (4, [("ScalePlan", True)]) == (
        result.conversions[0].values["nodes"],
        [(item.kind, item.is_needed) for item in result.beside],
    )


def test_roles_of_an_elastic_job_without_a_number() -> None:
    """DLRover's master makes a worker the chief, with the chief's own template; no evaluator."""
    template = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["train"]}]}}
    lead = {"spec": {"containers": [{"name": "main", "image": "x", "command": ["lead"]}]}}
    specs = {
        "ps": {"replicas": 1, "template": template},
        "worker": {"replicas": 4, "template": template},
        "chief": {"template": lead},
        "evaluator": {"template": template},
    }
    spec = {"distributionStrategy": "ParameterServerStrategy", "replicaSpecs": specs}
    manifest = {**DOCUMENTS["gpt"].data, "spec": spec}
    conversion = registry.convert_document(Document(manifest), Context())
    assert Counter(ps=1, worker=3, chief=1) == Counter(pod.role for pod in dlrover.pods(manifest))
    assert (3, {"chief": {"replicas": 1, "command": ["lead"]}, "ps": {"replicas": 1}}) == (
        conversion.values["nodes"],
        conversion.values["elastic"]["roles"],
    )
    why = {verdict.path: verdict.why for verdict in conversion.of(Outcome.CHANGED)}
    assert (
        "one of them is the chief, which is counted apart"
        == (why["spec.replicaSpecs.worker.replicas"])
    )
    assert any("is the chief" in note for note in conversion.notes)
    assert (
        "without replicas there are none of them"
        == (why["spec.replicaSpecs.evaluator.template.spec.containers[0].image"])
    )


PLAIN_ELASTIC = """\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: e}
spec:
  replicaSpecs:
    worker: {replicas: 2, template: {spec: {containers: [{name: main, image: i, command: WORDS,
      resources: {limits: {nvidia.com/gpu: 8}}}]}}}
"""


def test_a_module_of_dlrover_finds_no_master() -> None:
    """With parameter servers, too, what asks DLRover's own master is said."""
    text = PLAIN_ELASTIC.replace(
        "spec:\n", "spec:\n  distributionStrategy: ParameterServerStrategy\n", 1
    )
    for words, is_lost in (("-m dlrover.trainer.entry.local_entry", True), ("train.py", False)):
        conversion = text_as_jobs(
            text.replace("WORDS", f"[bash, -c, 'cd a && python {words}']")
        ).conversions[0]
        assert is_lost == any("command" in path for path in lost(conversion))


@pytest.mark.parametrize(
    ("words", "is_lost", "is_noted"),
    [
        ("[python, t.py]", False, False),
        ("[bash, /app/run.sh]", False, True),
        ("[bash, -c, 'for i in 1 2; do dlrover-run t.py; done']", True, False),
    ],
)
def test_an_elastic_job_without_a_launcher_runs_its_command_once_in_each_pod(
    words: str, is_lost: bool, is_noted: bool
) -> None:
    """As DLRover did, and not for each GPU; what a launcher in a script lacks is said."""
    conversion = text_as_jobs(PLAIN_ELASTIC.replace("WORDS", words)).conversions[0]
    assert 1 == conversion.values["procsPerNode"]
    assert is_lost == bool(lost(conversion))
    assert is_noted == any("/app/run.sh runs is not known" in note for note in conversion.notes)


@pytest.mark.parametrize("strategy", ["AllreduceStrategy", "ParameterServerStrategy"])
def test_who_makes_the_pods_of_an_elastic_job_is_said(strategy: str) -> None:
    """Without allranks' operator the object makes no pods, whatever its workers run."""
    text = (
        "apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\n"
        f"spec: {{distributionStrategy: {strategy}, replicaSpecs: {{worker: {{replicas: 1, "
        "template: {spec: {containers: [{name: main, image: 'a/b:1', command: [sh, a.sh]}]}}}}}\n"
    )
    notes = text_as_jobs(text).conversions[0].notes
    assert any("allranks operator install" in note for note in notes)


def test_restarts_of_the_agent_are_a_loss() -> None:
    """No value has them, so that the exit code says so, and not a note alone."""
    text = (
        "apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata: {name: a}\n"
        "spec: {distributionStrategy: AllreduceStrategy, replicaSpecs: {worker: {replicas: 1, "
        "template: {spec: {containers: [{name: main, image: 'a/b:1', "
        "command: [dlrover-run, --max_restarts=3, t.py]}]}}}}}\n"
    )
    whys = [verdict.why for verdict in text_as_jobs(text).conversions[0].lost]
    assert any("--max_restarts" in why for why in whys)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ("--log_dir, /l, -r, '3', --rdzv_conf, a=1", "--log-dir, --redirects, --rdzv-conf"),
        ("--monitor_interval=7, --start-method, fork", "--monitor-interval, --start-method"),
        ("--nnodes=2, --rdzv-backend=c10d, --rdzv-id, a, --master-port=1", ""),
    ],
)
def test_options_that_the_agent_does_not_read_are_a_loss(words: str, named: str) -> None:
    """Torchrun's own are said by name, but for those that the chart decides itself."""
    text = PLAIN_ELASTIC.replace("WORDS", f"[dlrover-run, {words}, t.py]")
    whys = {verdict.why for verdict in text_as_jobs(text).conversions[0].lost}
    assert ({f"its {named}: allranks' own agent reads no such option"} if named else set()) == whys


def test_an_option_that_no_torchrun_has_is_a_loss() -> None:
    """It is said, as it is where the chart calls torchrun itself."""
    text = PLAIN_ELASTIC.replace("WORDS", "[dlrover-run, --no_such_thing=1, t.py]")
    whys = [verdict.why for verdict in text_as_jobs(text).conversions[0].lost]
    assert any("--no_such_thing" in why for why in whys)


@pytest.mark.parametrize("where", ["autoScale: false", "enableElasticScheduling: false"])
def test_a_range_of_workers_that_stay_as_many_is_changed(where: str) -> None:
    """The number is that of replicas, and neither end of the range is carried as it is."""
    own, whole = (where, "") if "auto" in where else ("priority: ''", f"{where}, ")
    [conversion] = text_as_jobs(
        "apiVersion: elastic.iml.github.io/v1alpha1\nkind: ElasticJob\nmetadata: {name: j}\nspec: {"
        f"distributionStrategy: AllreduceStrategy, {whole}replicaSpecs: {{worker: {{replicas: 4, "
        f"minReplicas: 2, maxReplicas: 8, {own}, template: {{spec: {{containers: [{{name: main, "
        "image: i, command: [dlrover-run, a.py]}]}}}}}\n"
    ).conversions
    auto = conversion.values["elastic"]["auto"]
    assert (4, 4) == (auto["minWorkers"], auto["maxWorkers"])
    whys = {verdict.path: verdict.why for verdict in conversion.of(Outcome.CHANGED)}
    for key in ("minReplicas", "maxReplicas"):
        assert "false the workers stay 4" in whys[f"spec.replicaSpecs.worker.{key}"]


_SERVERS = """\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: ctr}
spec:
  distributionStrategy: ParameterServerStrategy
  resourceLimits: {cpu: "15", memory: 30000Mi}
  replicaSpecs:
    ps: &role
      autoScale: true
      template: {spec: {containers: [
        {name: main, image: "r/tf:2.13", command: [python, t.py]ASKS}]}}
    worker: {<<: *role MOST}
"""


@pytest.mark.parametrize(
    ("asks", "most", "is_lost"),
    [
        ("", "", True),
        ("", ", maxReplicas: 4", False),
        (', resources: {requests: {cpu: "2"}}', "", False),
    ],
)
def test_workers_that_nothing_bounds_stay_as_many(asks: str, most: str, *, is_lost: bool) -> None:
    """The limits cannot be divided by pods that ask for nothing; the servers stay in any case."""
    text = _SERVERS.replace("ASKS", asks).replace(" MOST", most)
    [conversion] = text_as_jobs(text).conversions
    verdicts = {verdict.path: verdict for verdict in conversion.verdicts}
    assert ("spec.replicaSpecs.worker.autoScale" in lost(conversion)) is is_lost
    assert Outcome.CHANGED is verdicts["spec.replicaSpecs.ps.autoScale"].outcome
    is_noted = any("DLRover's master chose their CPU and memory" in n for n in conversion.notes)
    assert is_noted is (not asks)


def test_a_strategy_that_dlrover_has_not_is_refused_as_none() -> None:
    """Only CustomStrategy leaves it to the job's own master."""
    problem = refusal(
        _SERVERS.replace("ServerStrategy", "Server").replace(" MOST", "").replace("ASKS", "")
    )
    assert "ParameterServer is no strategy of DLRover's" == problem.message
    assert "did you mean ParameterServerStrategy?" == problem.hint


def test_a_role_in_capitals_is_none_of_dlrovers() -> None:
    """Its master keeps the keys as they are typed, and finds no such role."""
    text = _SERVERS.replace("    ps:", "    PS:").replace(" MOST", "").replace("ASKS", "")
    problem = refusal(text)
    assert ("spec.replicaSpecs.PS", "write ps") == (problem.path, problem.hint)


@pytest.mark.parametrize(
    ("typed", "is_named"), [("AllreduceStrategy", False), ("AllReduceStrategy", True)]
)
def test_a_strategy_in_another_spelling_is_said(typed: str, *, is_named: bool) -> None:
    """DLRover's master compares it exactly, and ended where it was another."""
    source = DOCUMENTS["gpt"].data
    spec = {**source["spec"], "distributionStrategy": typed}
    conversion = registry.convert_document(Document({**source, "spec": spec}), Context())
    assert "AllreduceStrategy" == conversion.values["elastic"]["strategy"]
    [own] = [own for own in conversion.verdicts if own.path == "spec.distributionStrategy"]
    assert is_named == ("ends at another spelling" in own.why)
