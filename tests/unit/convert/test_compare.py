from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from allranks.convert import original
from allranks.convert.jobs import mpi_hosts, roles
from allranks.convert.original import mpi
from allranks.convert.reports import compare


def _release(container: dict[str, Any], role: str = "node") -> dict[str, Any]:
    """A Job of a release with one pod, whose container is named as ours are."""
    spec = {"containers": [{"name": "trainer", "image": "x:1", **container}]}
    labels = {"allranks.dev/role": role}
    template = {"metadata": {"labels": labels}, "spec": spec}
    return {"kind": "Job", "spec": {"completions": 1, "template": template}}


_HOSTS = "H=`cat /etc/volcano/worker.host`; /usr/sbin/sshd; mpiexec"
_MNIST = ("/opt/pytorch-mnist/mnist.py",)


def _original(container: dict[str, Any]) -> original.OriginalPod:
    spec = {"containers": [{"name": "main", "image": "x:1", **container}]}
    return original.OriginalPod("job-0", "node", 0, {"spec": spec}, "main", world=1, ranks=1)


def test_what_a_job_sets_itself_is_no_difference() -> None:
    """A script that reads MASTER_ADDR is the same, whatever the old manifest had typed there."""
    script = ["sh", "-c", "exec python3 t.py --at=$MASTER_ADDR --data=$DATA"]
    env = [{"name": "MASTER_ADDR", "value": "job-0.svc"}, {"name": "DATA", "value": "/d"}]
    theirs = _original({"command": script, "env": env})
    ours = _release({"args": script, "env": env[1:]})
    assert [] == compare.differences([theirs], [ours])


def test_a_variable_that_the_command_makes_of_the_jobs_own_is_no_difference() -> None:
    """The address of rank 0 under another name is set; another text is a difference."""
    env = [{"name": "FIRST", "value": "a-0.svc"}, {"name": "N", "value": "2"}]
    theirs = _original({"command": ["python", "t.py"], "env": env})
    for exports, expected in (
        ("FIRST=\"$MASTER_ADDR\" N='2'", []),
        ("FIRST=\"$MASTER_ADDR\" N='3'", ["env N"]),
        ('FIRST="$HOME" N="$WORLD_SIZE"', ["env FIRST"]),
    ):
        args = [word.replace("$", "$$") for word in roles.wrapped(["python", "t.py"], exports)]
        differing = compare.differences([theirs], [_release({"args": args})])
        assert expected == [difference.setting for difference in differing]


def test_variables_that_kubernetes_puts_in_are_the_same() -> None:
    """Also one of another, one whose value the cluster has, and what only looks like one."""
    env = [
        {"name": "IP", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}},
        {"name": "DIR", "value": "/a"},
        {"name": "OUT", "value": "$(DIR)/x"},
        {"name": "TEXT", "value": "$$(DIR)"},
    ]
    words = ["--ip=$(IP)", "--out=$(OUT)", "$$(E)", "$(TEXT)", "$(MASTER_ADDR)"]
    ours = 'exec python t.py \'--ip=\'"${IP}" --out="${OUT}" \'$(E)\' "${TEXT}" "${MASTER_ADDR}"'
    for command, script in (
        (["python", "t.py", *words], ["sh", "-c", ours]),
        (["torchrun", "t.py", *words], ["sh", "-c", ours.replace("python", "python3 -u")]),
        (
            ["sh", "-c", "python t.py --out=$(OUT) $$HOME $(IP) $(hostname)"],
            ["sh", "-c", "exec python t.py --out=${OUT} $$HOME ${IP} $$(hostname)"],
        ),
    ):
        theirs = _original({"command": command, "env": env})
        assert [] == compare.differences([theirs], [_release({"args": script, "env": env})])
    other = _release({"args": ["sh", "-c", ours.replace("OUT", "DIR")], "env": env})
    theirs = _original({"command": ["python", "t.py", *words], "env": env})
    differing = compare.differences([theirs], [other])
    assert ["command"] == [difference.setting for difference in differing]


def test_variables_that_a_script_of_several_commands_has_put_in_are_the_same() -> None:
    """Between single quotes, too, where its shell puts them in between two of them."""
    env = [{"name": "MSG", "value": "a b"}]
    theirs = _original({"command": ["sh", "-c", "echo '$(MSG)' $(MSG); ./a"], "env": env})
    for script, expected in (("echo ''\"$${MSG}\"'' $${MSG}; ./a", []), ("echo; ./a", ["command"])):
        ours = _release({"args": ["sh", "-c", script], "env": env})
        assert expected == [item.setting for item in compare.differences([theirs], [ours])]


@pytest.mark.parametrize(
    ("script", "expected"),
    [("echo $WORLD_SIZE; ./a", ["env WORLD_SIZE"]), ("echo; ./a", [])],
)
def test_another_number_of_ranks_is_a_difference_to_who_reads_it(
    script: str, expected: list[str]
) -> None:
    """Each pod runs the command once here, where the controller counted eight processes of it."""
    words = ["sh", "-c", script]
    theirs = replace(_original({"command": words}), env={"WORLD_SIZE": "8"})
    env = [
        {"name": "PET_NNODES", "value": "1"},
        {"name": "PET_NPROC_PER_NODE", "value": "1"},
    ]
    ours = _release({"args": [word.replace("$", "$$") for word in words], "env": env})
    assert expected == [item.setting for item in compare.differences([theirs], [ours])]


def test_a_folder_that_a_script_enters_is_its_working_directory() -> None:
    """`cd /w && a` is `a` in that folder, and a difference in any other."""
    theirs = _original({"command": ["sh", "-c", "cd /w && python t.py"]})
    ours = [{"args": ["python", "t.py"], "workingDir": folder} for folder in ("/w", "/v")]
    differing = [compare.differences([theirs], [_release(container)]) for container in ours]
    assert [[], ["workingDir"]] == [
        [difference.setting for difference in differences] for differences in differing
    ]


def test_a_container_without_a_name_is_the_one_that_trains() -> None:
    """The only container of a pod is compared, whether or not it has a name."""
    template = {"spec": {"containers": [{"image": "x:1", "command": ["a"]}]}}
    job = {
        "apiVersion": "kubeflow.org/v2beta1",
        "metadata": {"name": "j"},
        "spec": {"mpiReplicaSpecs": {"Launcher": {"template": template}}},
    }
    ours = _release({"args": ["a"]}, "launcher")
    assert [] == compare.differences(mpi.pods(job), [ours])


def test_a_launcher_that_counts_its_hosts_is_the_same() -> None:
    """A script that reads the file of hosts stays as it is, and is compared as it is."""
    script = ["bash", "-c", "N=$(wc -l </etc/mpi/hostfile)\nsleep 10\nmpirun -np $N a"]
    theirs = original.OriginalPod(
        "job-0", "launcher", 0, _original({"command": script}).template, "main"
    )
    assert [] == compare.differences([theirs], [_release({"args": script}, "launcher")])


@pytest.mark.parametrize("words", [["sleep", "9"], ["sh", "-c", "pip install x && sleep infinity"]])
def test_workers_that_wait_after_a_setup_are_the_same(words: list[str]) -> None:
    """The chart's workers wait by themselves, after the setup that the words have become."""
    template = _original({"command": words}).template
    theirs = original.OriginalPod("job-0", "worker", 0, template, "main")
    assert [] == compare.differences([theirs], [_release({}, "worker")])


def test_a_shell_that_reads_its_profile_is_another() -> None:
    """`bash -lc` may find its programs elsewhere than the words alone do."""
    theirs = _original({"command": ["bash", "-lc", "python t.py"]})
    ours = [["bash", "-lc", "exec python t.py"], ["python", "t.py"]]
    differing = [compare.differences([theirs], [_release({"args": args})]) for args in ours]
    assert [0, 1] == list(map(len, differing))


def test_a_claim_that_both_make_is_the_same() -> None:
    """A volume whose claim comes with the job is one, however either calls the claim."""

    def volumes(claim: str) -> list[dict[str, Any]]:
        return [{"name": "v", "persistentVolumeClaim": {"claimName": claim}}]

    container = {"command": ["a"], "volumeMounts": [{"name": "v", "mountPath": "/v"}]}
    spec = {**_original(container).spec, "volumes": volumes("v-train")}
    theirs = original.OriginalPod("job-0", "node", 0, {"spec": spec}, "main", claims=("v-train",))
    ours = _release({"args": ["a"], "volumeMounts": container["volumeMounts"]})
    ours["spec"]["template"]["spec"]["volumes"] = volumes("job-checkpoints")
    claim = {"kind": "PersistentVolumeClaim", "metadata": {"name": "job-checkpoints"}}
    assert [] == compare.differences([theirs], [claim, ours])
    assert ["mount /v"] == [item.setting for item in compare.differences([theirs], [ours])]


def test_an_amount_of_nothing_is_none() -> None:
    """`cpu:` without a value is no limit, as to Kubernetes."""
    amounts = {"limits": {"cpu": None, "memory": "1Gi"}}
    theirs = _original({"command": ["a"], "resources": amounts})
    ours = _release({"args": ["a"], "resources": {"limits": {"memory": "1Gi"}}})
    assert [] == compare.differences([theirs], [ours])


def test_the_launcher_of_old_mpi_jobs_has_an_account() -> None:
    """Each version but v2beta1 reaches the workers through the API, with an account of its own."""
    accounts = {}
    for version in ("v1alpha2", "v1", "v2beta1"):
        pod = {"template": {"spec": {"containers": [{"name": "m", "image": "x:1"}]}}}
        specs = {"Launcher": pod, "Worker": pod}
        job = {"apiVersion": f"kubeflow.org/{version}", "kind": "MPIJob"}
        job |= {"metadata": {"name": "j"}, "spec": {"mpiReplicaSpecs": specs}}
        launcher = next(item for item in mpi.pods(job) if item.role == "launcher")
        accounts[version] = launcher.spec.get("serviceAccountName")
    assert {"v1alpha2": "j-launcher", "v1": "j-launcher", "v2beta1": None} == accounts


def test_the_same_by_other_words_is_no_difference() -> None:
    """A digest with its tag, a known entry point spelt out, and a setup that stands elsewhere."""
    image = "docker.io/kubeflowkatib/pytorch-mnist"
    theirs = _original({"image": f"{image}:v1@sha256:ab", "args": ["--epochs=1"]})
    ours = _release(
        {"image": f"{image}@sha256:ab", "args": ["python3", *_MNIST, "--epochs=1"]},
    )
    assert [] == compare.differences([theirs], [ours])
    script = ["bash", "-c", "git clone a b\npython b/train.py\n"]
    theirs = _original({"command": script})
    for args in (["python", "b/train.py"], script):
        assert [] == compare.differences([theirs], [_release({"args": args})])
    theirs = _original({"command": ["bash", "-xc", "a &&  \nb\n"]})
    ours = _release({"args": ["bash", "-xc", "a &&\nb"]}, "worker")
    assert [] == compare.differences([theirs], [ours])
    theirs = original.OriginalPod("job-0", "launcher", 0, theirs.template, "main", world=1, ranks=1)
    theirs.spec["containers"][0]["command"] = ["sh", "-c", f"{_HOSTS} --host ${{H}} -np 2 ./a"]
    ours = _release({"args": ["sh", "-c", "mpiexec -np 2 ./a"]}, "launcher")
    assert [] == compare.differences([theirs], [ours])
    theirs = _original({"command": script})
    ours = _release({"args": ["python", "b/other.py"]})
    assert ["command"] == [item.setting for item in compare.differences([theirs], [ours])]


def test_the_pods_of_a_wrapper_are_those_of_its_job() -> None:
    """An AppWrapper makes its components, of which one is the job."""
    container = {"name": "pytorch", "image": "x:1"}
    specs = {"Worker": {"replicas": 2, "template": {"spec": {"containers": [container]}}}}
    job: dict[str, Any] = {"apiVersion": "kubeflow.org/v1", "kind": "PyTorchJob"}
    job |= {"metadata": {"name": "j"}}
    job |= {"spec": {"pytorchReplicaSpecs": specs}}
    components = [{"template": {"kind": "Service"}}, {"template": job}]
    wrapper: dict[str, Any] = {"apiVersion": "workload.codeflare.dev/v1beta2", "kind": "AppWrapper"}
    wrapper |= {"spec": {"components": components}}
    assert original.pods(job) == original.pods(wrapper)


def test_a_command_in_several_shells_that_only_set_variables_is_the_same() -> None:
    """As one is that tells a torchrun of its own of the job, around one with a pod's address."""
    words = ["bash", "run.sh"]
    inner = roles.wrapped(words, 'FIRST="$MASTER_ADDR"')
    args = [word.replace("$", "$$") for word in roles.wrapped(inner, 'PET_NNODES="$WORLD_SIZE"')]
    theirs = _original({"command": words})
    assert [] == compare.differences([theirs], [_release({"args": args})])
    traced = _original({"command": ["bash", "-c", "set -xe\n# Train\nbash run.sh\n"]})
    assert [] == compare.differences([traced], [_release({"args": args})])


def test_a_number_of_processes_from_outside_is_not_compared() -> None:
    """The default of a variable that `envFrom` may set is not what runs."""
    command = ["sh", "-c", "torchrun --nproc_per_node=${GPUS:-1} t.py"]
    container = {"command": command, "envFrom": [{"secretRef": {"name": "s"}}]}
    env = [{"name": "PET_NPROC_PER_NODE", "value": "4"}, {"name": "PET_NNODES", "value": "1"}]
    ours = _release({"args": ["python3", "-u", "t.py"], "env": env, **_sources(container)})
    assert [] == compare.differences([_original(container)], [ours])


def _sources(container: dict[str, Any]) -> dict[str, Any]:
    return {"envFrom": container["envFrom"]}


def _settings(
    theirs: original.OriginalPod, ours: dict[str, Any], entrypoint: tuple[str, ...] = ()
) -> list[str]:
    return [item.setting for item in compare.differences([theirs], [ours], entrypoint)]


def test_what_a_person_writes_on_a_template_is_compared() -> None:
    """Labels, annotations and the scheduler; what a controller or a chart writes is none of it."""
    theirs = _original({"command": ["a"]})
    labels = {
        "team": "vision",
        "batch.kubernetes.io/job-name": "job",
        "app.kubernetes.io/name": "x",
    }
    metadata = {"labels": labels, "annotations": {"cost": "7", "kubectl.kubernetes.io/x": "y"}}
    spec = {**theirs.spec, "schedulerName": "own"}
    theirs = replace(theirs, template={"metadata": metadata, "spec": spec})
    ours = _release({"args": ["a"]})
    assert ["scheduler", "label team", "annotation cost"] == _settings(theirs, ours)
    template = ours["spec"]["template"]
    template["metadata"]["labels"]["team"] = "vision"
    template["metadata"]["annotations"] = {"cost": "7"}
    template["spec"]["schedulerName"] = "own"
    assert [] == _settings(theirs, ours)


def test_an_amount_is_shown_as_it_is_written() -> None:
    """1Gi is 1024Mi, and no device is as none."""
    limits = {"memory": "512Gi", "cpu": "1000m", "nvidia.com/gpu": 0}
    theirs = _original({"command": ["a"], "resources": {"limits": limits}})
    ours = {"args": ["a"], "resources": {"limits": {"memory": "524288Mi", "cpu": 1}}}
    assert [] == _settings(theirs, _release(ours))
    ours["resources"] = {"limits": {"memory": "1Gi", "cpu": 1}}
    differing = [str(item) for item in compare.differences([theirs], [_release(ours)])]
    assert "node: limit memory: 512Gi there, 1Gi here" in differing


@pytest.mark.parametrize(
    ("controller", "processes"), [({}, 1), ({"PET_NPROC_PER_NODE": "auto"}, 4)]
)
def test_a_torchrun_without_a_number_starts_what_it_is_told(
    controller: dict[str, str], processes: int
) -> None:
    """One process, or as many as its pod has GPUs where the controller tells it `auto`."""
    resources = {"limits": {"nvidia.com/gpu": 4}}
    theirs = _original({"command": ["torchrun", "a.py"], "resources": resources})
    theirs = replace(theirs, env=controller, ranks=0)
    env = [
        {"name": "PET_NPROC_PER_NODE", "value": str(processes)},
        {"name": "PET_NNODES", "value": "1"},
    ]
    ours = {"args": ["python3", "-u", "a.py"], "resources": resources, "env": env}
    assert [] == _settings(theirs, _release(ours))
    env[0]["value"] = "2"
    assert ["ranks of a training"] == _settings(theirs, _release(ours))


def test_an_entry_point_that_is_given_is_what_the_pods_run() -> None:
    """As for a conversion, where the container has args alone."""
    theirs, ours = _original({"args": ["--lr", "1"]}), _release({"args": ["python", "--lr", "1"]})
    assert ["command"] == _settings(theirs, ours)
    assert [] == _settings(theirs, ours, ("python",))


def test_a_number_in_quotes_is_read_as_for_a_conversion() -> None:
    """Kubernetes refuses it, and the file means it."""
    template = {"spec": {"containers": [{"name": "pytorch", "image": "x:1", "command": ["a"]}]}}
    job = {
        "apiVersion": "kubeflow.org/v1",
        "kind": "PyTorchJob",
        "metadata": {"name": "j"},
        "spec": {"pytorchReplicaSpecs": {"Worker": {"replicas": "2", "template": template}}},
    }
    assert 2 == len(original.pods(job) or ())


def test_a_variable_of_a_field_is_the_same_where_a_shell_puts_it_in() -> None:
    """Also in the form that is text where the container has no such variable."""
    source = {"fieldRef": {"fieldPath": "metadata.name"}}
    env = [{"name": "SHARD", "valueFrom": source}]
    theirs = _original({"command": ["a", "--x", "$(SHARD)"], "env": env})
    ours = {"args": ["sh", "-c", 'exec a --x "${SHARD-\\$(SHARD)}"'], "env": env}
    assert [] == _settings(theirs, _release(ours))


@pytest.mark.parametrize(
    ("command", "theirs_env", "setting"),
    [
        (["torchrun", "--nproc_per_node=1", "a.py"], {}, "ranks of a training"),
        (["torchrun", "--standalone", "a.py"], {"PET_NNODES": "2"}, "ranks of a training"),
        (["torchrun", "a.py"], {"PET_NNODES": "2"}, ""),
        (["python", "a.py"], {"PET_NNODES": "2"}, "RANK, WORLD_SIZE and MASTER_ADDR"),
        (["python", "a.py"], {"RANK": "0"}, ""),
        (["sh", "-c", "export RANK=${HOSTNAME##*-}; exec python a.py"], {}, ""),
    ],
)
def test_pods_that_trained_by_themselves_are_others(
    command: list[str], theirs_env: dict[str, str], setting: str
) -> None:
    """Pods of one torchrun each, or that nothing told of the others, train together here."""
    pod = replace(_original({"command": command}), env=theirs_env, ranks=0, world=2)
    env = [{"name": name, "value": "2"} for name in ("PET_NNODES",)]
    env.append({"name": "PET_NPROC_PER_NODE", "value": "1"})
    args = command if command[0] == "sh" else ["python3", "-u", "a.py"]
    args = ["python", "a.py"] if command[0] == "python" else args
    ours = _release({"args": args, "env": env})
    ours["spec"]["completions"] = 2
    settings = [item.setting for item in compare.differences([pod, replace(pod, index=1)], [ours])]
    assert ([setting] if setting else []) == settings


def test_a_volume_is_shown_as_a_manifest_has_it() -> None:
    """Its source, and how it is mounted where that is more than a place."""
    theirs = _original({"volumeMounts": [{"name": "d", "mountPath": "/d", "readOnly": True}]})
    volume = {"name": "d", "persistentVolumeClaim": {"claimName": "data"}}
    theirs = theirs.with_spec({**theirs.spec, "volumes": [volume]})
    (difference,) = compare.differences([theirs], [_release({})])
    shown = '{"persistentVolumeClaim": {"claimName": "data"}}, {"readOnly": true} there'
    assert f"mount /d: {shown}, nothing here" in str(difference)


def test_a_launchers_way_to_its_workers_is_the_charts() -> None:
    """Agent and key have other paths here, and reach the same pods."""
    words = ["bash", "-c", "cp /root/.ssh/id_rsa /k; /etc/mpi/kubexec.sh h ls; mpirun ./a"]
    theirs = replace(
        _original({"command": words}), role="launcher", files={"/root/.ssh/id_rsa": "its key"}
    )
    key, agent = "/etc/allranks-ssh/ssh-privatekey", "/etc/allranks/rsh.sh"
    args = ["bash", "-c", f"cp {key} /k; {agent} h ls; mpirun ./a"]
    assert [] == compare.differences([theirs], [_release({"args": args}, "launcher")])


def test_a_difference_of_some_pods_names_them() -> None:
    """Of a master and its workers, which are one role here, one alone may have it."""
    pods = [
        replace(_original({"command": ["a"], "image": f"{tag}:1"}), name=f"j-{tag}", index=index)
        for index, tag in enumerate(("master", "worker"))
    ]
    ours = _release({"args": ["a"], "image": "worker:1"})
    ours["spec"]["completions"] = 2
    texts = [str(item) for item in compare.differences(pods, [ours])]
    assert ["node: image: master:1 there in j-master, worker:1 here"] == texts


def test_the_slots_of_mpiruns_hosts_are_compared() -> None:
    """How many each has, and in the form that one MPI reads; their names are the release's."""
    theirs = replace(
        _original({"command": ["mpirun", "a"]}),
        role="launcher",
        files={mpi_hosts.HOSTFILE: "a-0.a:2\n"},
    )
    ours = _release({"args": ["mpirun", "a"]}, "launcher")
    differing = []
    for lines in ("b-worker-0.b:2\n", "b-worker-0.b:1\n", "b-worker-0.b slots=2\n"):
        hosts = {"kind": "ConfigMap", "data": {"hostfile": lines}}
        differing.append([str(item) for item in compare.differences([theirs], [ours, hosts])])
    head = "launcher: /etc/mpi/hostfile: HOST:2 there, HOST"
    assert [[], [f"{head}:1 here"], [f"{head} slots=2 here"]] == differing


def test_deepspeed_without_hosts_trained_in_each_pod() -> None:
    """As the conversion says; here its pods train together."""
    pod = replace(_original({"command": ["deepspeed", "t.py"]}), env={}, ranks=0, world=2)
    env = [{"name": name, "value": "2"} for name in ("PET_NNODES", "PET_NPROC_PER_NODE")]
    ours = _release({"args": ["python3", "-u", "t.py"], "env": env})
    assert "ranks of a training" in [item.setting for item in compare.differences([pod], [ours])]


def test_a_role_of_an_elastic_job_without_a_number_has_one_pod() -> None:
    """As its operator counts it, on both sides."""
    container = {"name": "trainer", "image": "x:1", "args": ["a"]}
    specs = {"worker": {"template": {"spec": {"containers": [container]}}}}
    ours = {"kind": "ElasticJob", "spec": {"replicaSpecs": specs}}
    theirs = replace(_original({"command": ["a"]}), role="worker")
    assert [] == compare.differences([theirs], [ours])
