"""HyperPodPyTorchJob: spares, logs that stand still, and what only its operator knew."""

from __future__ import annotations

from tests import converted

HYPERPOD = (converted.DATA / "hyperpod.yaml").read_text(encoding="utf-8")


def test_spares_of_hyperpod_are_spares() -> None:
    """Pods that stand by there stand by here; a job of one pod cannot have any, and says so."""
    spared = HYPERPOD.replace("spares: 0", "spares: 2")
    conversion = converted.text_as_jobs(spared).conversions[0]
    assert (4, 2) == (conversion.values["nodes"], conversion.values["torchrun"]["spares"])
    assert not conversion.lost
    single_node = spared.replace("replicas: 4", "replicas: 1").replace("--nnodes=4", "--nnodes=1")
    single = converted.text_as_jobs(single_node).conversions[0]
    assert {"spec.replicaSpecs[0].spares"} == converted.lost(single)


def test_a_size_that_hyperpod_changes_is_lost() -> None:
    """Elastic training of HyperPod has fields of its own, and a run keeps its number of nodes."""
    policy = "elasticPolicy: {minReplicas: 1, maxReplicas: 8, replicaIncrementStep: 1}"
    text = HYPERPOD.replace("runPolicy: {", f"{policy}\n  runPolicy: {{", 1)
    result = converted.text_as_jobs(text.replace("replicas: 4", "replicas: 4\n    maxReplicas: 8"))
    reasons = {verdict.path: verdict.why for verdict in result.conversions[0].lost}
    assert {True} == {"set torchrun.elastic" in why for why in reasons.values()}
    assert {"spec.replicaSpecs[0].maxReplicas", "spec.elasticPolicy.minReplicas"} <= set(reasons)


def test_a_script_that_may_ask_hyperpod_s_operator_is_said() -> None:
    """A hyperpodrun among other commands asks for what is not there; of a file nobody can say."""
    plain = HYPERPOD.partition("command: ")[2].partition("]")[0] + "]"
    script = HYPERPOD.replace(plain, "[bash, /app/run.sh]")
    notes = " ".join(converted.text_as_jobs(script).conversions[0].notes)
    assert "NNODES and NPROC_PER_NODE" in notes
    nested = HYPERPOD.replace(plain, '[bash, -c, "hyperpodrun a.py; hyperpodrun b.py"]')
    losses = converted.text_as_jobs(nested).conversions[0].lost
    assert {True} == {"asks HyperPod's operator" in verdict.why for verdict in losses}
    assert losses


def test_a_log_that_stands_still_is_a_run_that_does() -> None:
    """The shortest time that a pattern may be missing, after its start, ends an attempt."""
    rules = (
        "logMonitoringConfiguration: ["
        "{name: Start, logPattern: a, expectedStartCutOffInSeconds: 9}, "
        "{name: Hang, logPattern: b, expectedRecurringFrequencyInSeconds: 300,"
        " expectedStartCutOffInSeconds: 600}, "
        "{name: Save, logPattern: c, expectedRecurringFrequencyInSeconds: 900, metricThreshold: 1}]"
    )
    text = HYPERPOD.replace("runPolicy: {", f"runPolicy: {{{rules}, ")
    conversion = converted.text_as_jobs(text).conversions[0]
    policy = conversion.values["runPolicy"]
    assert (600, "end") == (policy["stallSeconds"], policy["onStall"])
    here = "spec.runPolicy.logMonitoringConfiguration"
    assert {
        *(f"{here}[0].{key}" for key in ("name", "logPattern", "expectedStartCutOffInSeconds")),
        f"{here}[2].metricThreshold",
    } == converted.lost(conversion)
    text = text.replace(
        "{name: Start,", "{name: High, logPattern: d, metricThreshold: 1}, {name: S,"
    )
    (conversion,) = converted.text_as_jobs(text).conversions
    whys = {item.path: item.why for item in conversion.lost}
    assert "nothing looks for numbers in the log" == whys[f"{here}[0].logPattern"]
    assert "no line is expected in the log at a time" == whys[f"{here}[1].logPattern"]


def test_a_job_of_hyperpod_is_a_torchrun() -> None:
    """Its launcher is taken off; what its agent did besides is said, and hooks are lost."""
    conversion = converted.text_as_jobs(HYPERPOD).conversions[0]
    values = conversion.values
    assert ("torchrun", 4, 8, 10, "research") == (
        values["workload"],
        values["nodes"],
        values["gpusPerNode"],
        values["runPolicy"]["backoffLimit"],
        values["queue"],
    )
    assert ["python3", "-u", "train.py", "--epochs", "3"] == values["command"]
    assert not conversion.lost
    hooked = converted.text_as_jobs(
        HYPERPOD.replace("train.py", "--pre-train-script=pre.sh, train.py")
    )
    assert any("command" in path for path in converted.lost(hooked.conversions[0]))
    both = HYPERPOD.replace("train.py", "--pre-train-script=pre.sh, --inprocess-restart, train.py")
    whys = {item.why for item in converted.text_as_jobs(both).conversions[0].lost}
    assert {True} == {"--pre-train-script" in why and "--inprocess-restart" in why for why in whys}
    assert whys
