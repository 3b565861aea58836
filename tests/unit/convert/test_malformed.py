"""Manifests that are not as their kind has them: nothing is lost in silence."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.errors import InputError, InvalidValues
from allranks.service import convert as service
from tests import converted
from tests.converted import refusal

if TYPE_CHECKING:
    from pathlib import Path

WORKERS = """\
apiVersion: kubeflow.org/v1
kind: PyTorchJob
metadata: {name: big, labels: {kueue.x-k8s.io/queue-name: team}}
spec:
  runPolicy: {}
  elasticPolicy: {}
  pytorchReplicaSpecs:
    Worker:
      replicas: 2
      template: {spec: {containers: [{name: pytorch, image: "x:1", command: [python, t.py]}]}}
"""


def convert(*changes: tuple[str, str]) -> Any:
    """The job with some of its text changed, converted."""
    text = WORKERS
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    return converted.text_as_jobs(text).conversions[0]


@pytest.mark.parametrize(
    "key", ["backoffLimit", "activeDeadlineSeconds", "ttlSecondsAfterFinished"]
)
def test_a_number_below_the_least_of_a_run_policy_is_named(key: str) -> None:
    """What was given and what is allowed is said of it."""
    conversion = convert(("runPolicy: {}", f"runPolicy: {{{key}: -1}}"))
    whys = {own.path: own.why for own in conversion.lost}
    assert "it is -1, and 0 is the least that it may be" == whys[f"spec.runPolicy.{key}"]


def test_comments_stay_with_their_values(tmp_path: Path) -> None:
    """Above a value and behind it; a # inside of a value is none."""
    text = WORKERS.replace(
        "      replicas: 2\n", "      # All of the lab's nodes.\n      replicas: 2 # ask Ada\n"
    ).replace("[python, t.py]", "[python, 'a # b']")
    (tmp_path / "job.yaml").write_text(text, encoding="utf-8")
    result = service.convert((str(tmp_path / "job.yaml"),))
    values = service.values_file(result.conversions[0]).splitlines()
    at = next(
        number for number, line in enumerate(values) if line.startswith("nodes: 2 # ask Ada # ")
    )
    assert "# All of the lab's nodes." == values[at - 1]
    assert not any(line.endswith("# b']") and line.startswith("#") for line in values)


@pytest.mark.parametrize("name", ["[a]", "{a: b}"])
def test_a_mount_whose_name_is_no_text_is_said(name: str) -> None:
    """There is no volume of that name, whatever it is."""
    mount = f"volumeMounts: [{{name: {name}, mountPath: /d}}]"
    first = f"{{spec: {{initContainers: [{{name: fetch, image: y, {mount}}}], "
    conversion = convert(("{spec: {", first))
    assert any("mounts the volume" in note for note in conversion.notes)
    (fetch,) = conversion.values["podTemplate"]["spec"]["initContainers"]
    assert "volumeMounts" not in fetch


def test_what_validate_refuses_is_refused(tmp_path: Path) -> None:
    """A script's own text that a sweep would take for a parameter, with the script's line."""
    script = tmp_path / "job.sbatch"
    script.write_text("#!/bin/bash\n#SBATCH -a 0-3\npython t.py '${sweep.lr}'\n", encoding="utf-8")
    with pytest.raises(InvalidValues, match="names no parameter") as error:
        service.convert((str(script),))
    assert error.value.problems[0].source == f"{script}:1"


def test_labels_that_are_a_text_are_said() -> None:
    """A TorchrunJob whose labels are no mapping is converted without them."""
    text = (
        "apiVersion: torchrun.ai/v1\nkind: TorchrunJob\nmetadata: {name: a}\n"
        "spec: {numGPUs: 1, image: x, command: python a.py, labels: Never}\n"
    )
    assert "spec.labels" in converted.lost(converted.text_as_jobs(text).conversions[0])


@pytest.mark.parametrize("replicas", ["true", "2.5", "two", "[2]"])
def test_what_is_no_number_is_said(replicas: str) -> None:
    """A number of pods that is none is not carried; 2.0 is two."""
    assert any(
        "Worker.replicas" in path for path in converted.lost(convert(("s: 2", f"s: {replicas}")))
    )
    assert not convert(("s: 2", "s: 2.0")).lost


def test_null_among_words_is_an_empty_word() -> None:
    """As Kubernetes reads it."""
    assert ["python", "", "true"] == convert(("[python, t.py]", "[python, null, true]")).values[
        "command"
    ]


@pytest.mark.parametrize("words", ["python t.py", "{a: b}"])
def test_a_command_is_a_list(words: str) -> None:
    """A text or a mapping is refused, with the list to write."""
    problem = converted.refusal(WORKERS.replace("[python, t.py]", words))
    assert "takes a list of words" in problem.message
    assert problem.path.endswith("containers[0].command")


def test_the_queue_of_a_label_is_the_one_that_admits() -> None:
    """Another queue of the run policy is Volcano's, which has no say in it."""
    conversion = convert(("runPolicy: {}", "runPolicy: {schedulingPolicy: {queue: other}}"))
    assert ("team", "kueue") == (
        conversion.values["queue"],
        conversion.values["scheduling"]["dialect"],
    )
    assert {"spec.runPolicy.schedulingPolicy.queue"} == converted.lost(conversion)


def test_a_script_that_starts_torchrun_has_a_fixed_size() -> None:
    """What the operator told torchrun of a range is said to be missing."""
    script = 'bash, -c, "pip list; torchrun --rdzv-endpoint $PET_RDZV_ENDPOINT t.py; cp out /data"'
    conversion = convert(
        ("elasticPolicy: {}", "elasticPolicy: {minReplicas: 1, maxReplicas: 4, maxRestarts: 9}"),
        ("python, t.py", script),
    )
    assert "elastic" not in conversion.values["torchrun"]
    lost = converted.lost(conversion)
    assert {
        f"spec.elasticPolicy.{key}" for key in ("minReplicas", "maxReplicas", "maxRestarts")
    } < lost
    assert any("command" in path for path in lost)


def test_a_key_that_is_given_twice_is_said() -> None:
    """The last one counts, as for Helm."""
    conversion = convert(("      replicas: 2\n", "      replicas: 2\n      replicas: 3\n"))
    assert 3 == conversion.values["nodes"]
    assert any("replicas is given twice" in note and ":10" in note for note in conversion.notes)


def test_a_key_that_is_given_twice_is_said_where_the_object_is_refused() -> None:
    """What the second of them lacks, a role's command, the first may have."""
    again = (
        "    Worker: {replicas: 1, template: {spec: {containers: [{name: pytorch, image: x}]}}}\n"
    )
    with pytest.raises(InvalidValues) as caught:
        convert(("t.py]}]}}\n", f"t.py]}}]}}}}\n{again}"))
    hint = caught.value.problems[0].hint
    assert hint.startswith("Worker is given twice, on line 8 and on line 11, and the last counts")
    assert "add the command" in hint


def test_a_master_that_calls_mpirun_is_refused() -> None:
    """Its workers only wait, and no operator has told it of them."""
    text = WORKERS.replace(
        "    Worker:",
        "    Master: {template: {spec: {containers: [{name: pytorch, image: x, "
        "command: [mpirun, t]}]}}}\n"
        "    Worker:",
    ).replace("[python, t.py]", "[sleep, infinity]")
    assert "calls mpirun" in converted.refusal(text).message


def test_commands_that_differ_by_the_rank_of_their_node_are_alike() -> None:
    """The chart tells torchrun of its rank, so that nothing is lost."""
    run = "[torchrun, --nnodes=3, --node-rank={}, --master-addr=m, t.py]"
    text = WORKERS.replace(
        "    Worker:",
        "    Master: {template: {spec: {containers: [{name: pytorch, image: 'x:1', command: "
        + run.format(0)
        + "}]}}}\n    Worker:",
    ).replace("[python, t.py]", run.format("$(RANK)"))
    assert not converted.text_as_jobs(text).conversions[0].lost


def test_a_variable_made_of_the_rank_is_said() -> None:
    """No container has RANK here; each process has."""
    conversion = convert(("name: pytorch,", "name: pytorch, env: [{name: ME, value: r$(RANK)}],"))
    assert any(path.endswith("env[0].value") for path in converted.lost(conversion))


ROLES = """\
apiVersion: kubeflow.org/v1
kind: TFJob
metadata: {name: roles}
spec:
  tfReplicaSpecs:
    Worker: {template: {spec: {containers: [{name: tensorflow, image: x, command: [a]}]}}}
    Board: {template: {spec: {containers: [{name: tensorflow, image: x, command: [b]}]}}}
"""


def test_a_role_that_a_kind_has_not_is_named() -> None:
    """In words of its own."""
    conversion = converted.text_as_jobs(ROLES).conversions[0]
    assert {"Board is no role of a TFJob"} == {verdict.why for verdict in conversion.lost}


ELASTIC = """\
apiVersion: elastic.iml.github.io/v1alpha1
kind: ElasticJob
metadata: {name: ej}
spec:
  enableElasticScheduling: true
  enableDynamicSharding: false
  resourceLimits: {gpu: "4"}
  replicaSpecs:
    worker:
      replicas: 3
      minReplicas: 2
      maxReplicas: 4
      template:
        spec:
          containers:
          - name: main
            image: i
            command: [python, t.py]
            resources: {limits: {nvidia.com/gpu: 2}}
"""


def test_a_limit_that_its_pods_exceed_is_left_out_alone() -> None:
    """The size of the job stays."""
    conversion = converted.text_as_jobs(ELASTIC).conversions[0]
    assert {"spec.resourceLimits.gpu"} == converted.lost(conversion)
    assert 3 == conversion.values["nodes"]


def test_containers_that_are_a_mapping_are_refused() -> None:
    """The dash that is missing is the reason, and not a role without pods."""
    problem = converted.refusal(WORKERS.replace("containers: [", "containers: ").replace("}]", "}"))
    assert "takes a list of containers" in problem.message
    assert problem.path.endswith("template.spec.containers")


def test_a_queue_whose_containers_are_no_list() -> None:
    """What cannot be read is lost, and nothing breaks."""
    text = "apiVersion: torchrun.ai/v1alpha1\nkind: TorchrunQueue\nmetadata: {name: q}\n"
    text += "spec: {podTemplate: {spec: {containers: 1.5, volumes: true}}}\n"
    assert converted.text_as_jobs(text).conversions[0].lost


@pytest.mark.parametrize("text", ["mpirun ./a\ncp b c\n", "sbatch a.sh\nsbatch b.sh --c: d\n"])
def test_a_file_of_shell_that_sbatch_takes_not_is_named_as_that(tmp_path: Path, text: str) -> None:
    """It was read as a manifest, whose YAML was wrong, or which had no object."""
    (tmp_path / "a.sh").write_text(text)
    with pytest.raises(InputError, match="no batch script"):
        service.convert([str(tmp_path / "a.sh")])


def test_a_second_volume_of_the_name_of_shared_memory_is_lost() -> None:
    """The first is the shared memory, and the pods have it alone."""
    volumes = (
        "volumes: [{name: shm, emptyDir: {medium: Memory, sizeLimit: 8Gi}}, "
        "{name: shm, persistentVolumeClaim: {claimName: a}}]"
    )
    mounts = "volumeMounts: [{name: shm, mountPath: /dev/shm}]"
    conversion = convert(
        ("command: [python, t.py]}]", f"command: [python, t.py], {mounts}}}], {volumes}")
    )
    assert {"size": "8Gi"} == conversion.values["shm"]
    path = "spec.pytorchReplicaSpecs.Worker.template.spec.volumes[1]"
    assert any(verdict.path.startswith(path) for verdict in conversion.lost)


def test_an_address_behind_what_is_no_variable_is_named_at_its_place() -> None:
    """The place of MASTER_ADDR counts every item of the list."""
    with pytest.raises(InvalidValues) as caught:
        converted.text_as_jobs(SPLIT)
    assert "spec.template.spec.containers[0].env[1].value" in str(caught.value)


SPLIT = """\
apiVersion: v1
kind: Service
metadata: {name: lead}
spec: {clusterIP: None, selector: {app: lead}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: lead}
spec: {template: {metadata: {labels: {app: lead}}, spec: {containers: [
  {name: c, image: "a/b:1", command: [torchrun, t.py]}]}}}
---
apiVersion: batch/v1
kind: Job
metadata: {name: worker}
spec: {template: {spec: {containers: [
  {name: c, image: "a/b:1", command: [torchrun, t.py],
   env: [x, {name: MASTER_ADDR, value: lead}]}]}}}
"""


def test_a_template_of_helms_is_to_be_rendered_first() -> None:
    """Its statements are no values that quotes would mend."""
    with pytest.raises(InputError) as caught:
        converted.text_as_jobs("{{ .Values.name }}: x\napiVersion: batch/v1\nkind: Job\n")
    assert "helm template" in caught.value.problem.hint


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("containers: [{name: pytorch,", "containers: [{"),
        (
            "command: [python, t.py]",
            "command: [python, t.py], ports: [{name: [a], containerPort: 1}]",
        ),
        (
            "command: [python, t.py]",
            "command: [python, t.py], volumeMounts: [{name: {a: b}, mountPath: /m}]",
        ),
    ],
)
def test_a_name_that_is_no_text_breaks_nothing(tmp_path: Path, old: str, new: str) -> None:
    """The job is converted, or refused in words, and compared with its own controller's pods."""
    (tmp_path / "job.yaml").write_text(WORKERS.replace(old, new))
    result = service.convert([str(tmp_path / "job.yaml")])
    (tmp_path / "values.yaml").write_text(service.values_file(result.conversions[0]))
    assert 2 == service.check(str(tmp_path / "values.yaml"), [str(tmp_path / "job.yaml")], "").pods


@pytest.mark.parametrize(
    ("old", "new", "path", "reads", "fix"),
    [
        ("{name: big,", "{name: 123,", "metadata.name", "123 here, a number", 'as in "123"'),
        ("{name: big,", "{name: n,", "metadata.name", "false here, a boolean", "y, n, yes, no"),
        (
            "{name: pytorch,",
            "{name: on,",
            "spec.pytorchReplicaSpecs.Worker.template.spec.containers[0].name",
            "true here, a boolean",
            "write it in quotes",
        ),
    ],
)
def test_a_name_that_yaml_reads_otherwise_is_refused(
    old: str, new: str, path: str, reads: str, fix: str
) -> None:
    """Kubernetes takes none; the value that YAML reads is said, and that quotes make it a text."""
    with pytest.raises(InvalidValues) as caught:
        convert((old, new))
    [problem] = caught.value.problems
    assert path == problem.path
    assert f"a name is a text, and YAML reads {reads}" == problem.message
    assert fix in problem.hint


def test_a_services_selector_that_is_no_text_breaks_nothing() -> None:
    """It selects no pod that Kubernetes would have."""
    service_text = (
        "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {a: {b: c}}}\n"
    )
    result = converted.text_as_jobs(f"{WORKERS}---\n{service_text}")
    assert ["s"] == [item.name for item in result.beside]


def test_a_shell_without_a_text_breaks_nothing(tmp_path: Path) -> None:
    """`srun bash -c` alone fails in bash, and here as well."""
    (tmp_path / "a.sh").write_text("#!/bin/bash\n#SBATCH -n 4\nsrun bash -c\n")
    (conversion,) = service.convert([str(tmp_path / "a.sh")]).conversions
    assert ["bash", "-c"] == conversion.values["command"]


def test_a_number_that_a_shell_computes_is_said() -> None:
    """`$((WORLD_SIZE * 4))` was the ranks, of the pods' number, and here it is four times those.

    Without a Master the operator set no such variable.
    """
    script = "torchrun --nproc-per-node=4 t.py --world $((WORLD_SIZE*4))"
    change = ("command: [python, t.py]", f"command: [bash, -c, '{script}']")
    notes = convert(change).notes
    assert any("WORLD_SIZE, which was not there, as nobody set it without" in n for n in notes)


@pytest.mark.parametrize(
    ("secrets", "wrong"),
    [
        (["Bad!", "good", "Worse!"], [0, 2]),
        (["good", "Bad!", "Worse!"], [1, 2]),
        (["Bad!", "good"], [0]),
    ],
)
def test_of_a_list_only_what_is_wrong_is_left_out(secrets: list[str], wrong: list[int]) -> None:
    """And each wrong item is named, whatever stands before and behind it."""
    own = ", ".join(f'{{name: "{name}"}}' for name in secrets)
    conversion = convert(("{spec: {", f"{{spec: {{imagePullSecrets: [{own}], "))
    assert ["good"] == conversion.values["imagePullSecrets"]
    assert {f"imagePullSecrets[{index}].name" for index in wrong} == {
        path.rpartition("spec.")[2] for path in converted.lost(conversion)
    }


def test_tasks_that_are_no_list_are_said_to_be_none() -> None:
    """It was said that there are no tasks."""
    problem = refusal(
        "apiVersion: batch.volcano.sh/v1alpha1\nkind: Job\nmetadata: {name: a}\nspec: {tasks: "
        "{name: w, template: {spec: {containers: [{name: c, image: i, command: [t.py]}]}}}}\n"
    )
    assert ("spec.tasks", "begin each task with a -") == (problem.path, problem.hint)


@pytest.mark.parametrize("count", ["__N__", "@N@", "%N%", "${N}"])
def test_a_number_that_is_to_be_filled_in_is_the_reason(count: str) -> None:
    """That of the pods' hosts was another."""
    problem = refusal(
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nmetadata: {name: a}\n"
        f"spec: {{replicatedJobs: [{{name: w, template: {{spec: {{parallelism: '{count}', "
        "template: "
        "{spec: {containers: [{name: c, image: i, command: [mpirun, -H, 'x:1', a]}]}}}}}]}\n"
    )
    assert "is no number" in problem.message
    assert problem.path.endswith("parallelism")


def test_an_empty_file_is_named(tmp_path: Path) -> None:
    """Beside a job, and by itself, as nothing is dropped in silence."""
    job, empty = tmp_path / "job.yaml", tmp_path / "empty.yaml"
    job.write_text(WORKERS, encoding="utf-8")
    empty.write_text("# nothing\n", encoding="utf-8")
    result = service.convert((str(job), str(empty)))
    assert [("the file", str(empty))] == [(own.kind, own.name) for own in result.beside]
    with pytest.raises(InputError, match="there is no object to convert") as caught:
        service.convert((str(empty),))
    assert str(empty) == caught.value.problem.source


def test_a_check_of_standard_input_is_refused_with_its_reason(tmp_path: Path) -> None:
    """It was said to hold no values, as it was read before."""
    job = tmp_path / "job.yaml"
    job.write_text(WORKERS, encoding="utf-8")
    with pytest.raises(InputError, match="more than once"):
        service.check("-", (str(job),))


def test_a_number_that_is_none_is_in_its_reason() -> None:
    """What was given is named, as in other messages."""
    conversion = convert(("replicas: 2", "replicas: three"))
    assert "'three' is no whole number" in {own.why for own in conversion.lost}


@pytest.mark.parametrize(
    "comment", ["kind: PyTorchJob // mine", "replicas: 2 // two", 'image: "x:1 // tested"']
)
def test_a_comment_in_the_manner_of_c_is_named(comment: str) -> None:
    """YAML reads it as part of the value; what is written for a program may have it."""
    old = comment.partition(" //")[0] + ('"' if comment.endswith('"') else "")
    assert "# in its place" in refusal(WORKERS.replace(old, comment)).hint
    convert(("python, t.py", "python, -c, 'print(7 // 2)'"))
