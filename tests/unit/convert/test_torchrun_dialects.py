from __future__ import annotations

from typing import Any

import pytest

from allranks.convert import original, registry
from allranks.convert.documents.context import Context
from allranks.convert.documents.document import Document
from allranks.convert.verdicts import Conversion, Outcome
from allranks.errors import InputError
from allranks.k8s import fields as k8s

TWICE: list[tuple[dict[str, Any], str, Any, str, str]] = [
    ({"numNodes": 2, "workers": 3}, "nodes", 2, "spec.workers", "spec.numNodes"),
    (
        {"command": "python b.py", "script": "a.py"},
        "command",
        ["python", "b.py"],
        "spec.script",
        "spec.command",
    ),
    (
        {"command": "python b.py", "script": "import a\n"},
        "command",
        ["python", "b.py"],
        "spec.script",
        "spec.command",
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": 2, "gpu": 4}}},
        "gpusPerNode",
        2,
        "spec.resources.limits.gpu",
        "spec.resources.limits.nvidia.com/gpu",
    ),
    (
        {"resources": {"limits": {"nvidia.com/gpu": 2}, "requests": {"nvidia.com/gpu": 3}}},
        "gpusPerNode",
        2,
        "spec.resources.requests.nvidia.com/gpu",
        "spec.resources.limits.nvidia.com/gpu",
    ),
    (
        {
            "env": [
                {
                    "name": "A",
                    "value": "1",
                    "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}},
                }
            ]
        },
        "env.A",
        {"valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}},
        "spec.env[0].value",
        "spec.env[0].valueFrom",
    ),
]
TWICE_OF_QUEUES: list[tuple[dict[str, Any], str, Any, str, str]] = [
    (
        {"kaiQueue": "a", "queue": {"name": "b"}},
        "kai.queue",
        "b",
        "spec.kaiQueue",
        "spec.queue.name",
    ),
    (
        {"kaiQueue": "a", "parentKaiQueue": "b", "queue": {"parentQueue": "c"}},
        "kai.parentQueue",
        "c",
        "spec.parentKaiQueue",
        "spec.queue.parentQueue",
    ),
    (
        {
            "scheduling": {"priorityClassName": "high"},
            "podTemplate": {"spec": {"priorityClassName": "low"}},
        },
        "defaults.scheduling.priorityClassName",
        "low",
        "spec.scheduling.priorityClassName",
        "spec.podTemplate.spec.priorityClassName",
    ),
    (
        {
            "scheduling": {"nodeSelector": {"a": "b"}},
            "podTemplate": {"spec": {"nodeSelector": {"a": "c", "d": "e"}}},
        },
        "defaults.scheduling.nodeSelector",
        {"a": "c", "d": "e"},
        "spec.scheduling.nodeSelector.a",
        "spec.podTemplate.spec.nodeSelector",
    ),
    (
        {
            "scheduling": {"scheduler": "volcano"},
            "podTemplate": {"spec": {"schedulerName": "mine"}},
        },
        "defaults.scheduling",
        {"schedulerName": "mine"},
        "spec.scheduling.scheduler",
        "spec.podTemplate.spec.schedulerName",
    ),
    (
        {
            "image": "hub.example/a:1",
            "podTemplate": {"spec": {"containers": [{"name": "trainer", "image": "b"}]}},
        },
        "defaults.image",
        {"repository": "b"},
        "spec.image",
        "spec.podTemplate.spec.containers[0].image",
    ),
]


def manifest(kind: str, spec: dict[str, Any], name: str = "demo") -> dict[str, Any]:
    """An object of the project."""
    metadata = {"name": name}
    return {
        "apiVersion": "torchrun.ai/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    }


def converted(spec: dict[str, Any], kind: str = "TorchrunJob", *beside: Any) -> Conversion:
    """An object as values that the chart takes."""
    minimum = {"image": "a:1", "command": "python t.py"} if kind == "TorchrunJob" else {}
    context = Context((*map(Document, beside),))
    return registry.convert_document(Document(manifest(kind, {**minimum, **spec})), context)


def lost(conversion: Conversion) -> dict[str, str]:
    """The fields that are not carried, and why."""
    return {verdict.path: verdict.why for verdict in conversion.lost}


@pytest.mark.parametrize(
    ("kind", "row"),
    [
        *(("TorchrunJob", row) for row in TWICE),
        *(("TorchrunQueue", row) for row in TWICE_OF_QUEUES),
    ],
    ids=lambda item: "" if isinstance(item, str) else item[3],
)
def test_of_two_fields_that_are_one_value_the_loser_is_not_carried(
    kind: str, row: tuple[dict[str, Any], str, Any, str, str]
) -> None:
    """It is said which one counts, and the value is of that one."""
    spec, value, expected, rival, counts = row
    conversion = converted(spec, kind)
    assert expected == k8s.at(conversion.values, *value.split("."))
    assert [rival] == list(lost(conversion))
    assert f"{counts} is the one that counts" in lost(conversion)[rival]


def test_of_three_fields_each_that_says_the_value_is_carried() -> None:
    """What differs from the last one alone is lost."""
    limits = {"limits": {"nvidia.com/gpu": 2, "gpu": 2}, "requests": {"nvidia.com/gpu": 3}}
    assert ["spec.resources.requests.nvidia.com/gpu"] == list(
        lost(converted({"resources": limits}))
    )
    twice = {"numNodes": 2, "workers": 2, "queue": "q", "jobQueue": "q"}
    assert {} == lost(converted(twice))


def test_of_two_queues_the_one_of_the_later_dialect_is_the_run_s() -> None:
    """The other one is named as not carried."""
    conversion = converted({"queue": "q1", "jobQueue": "q2"})
    assert "q1" == conversion.queue
    assert {"spec.jobQueue": "both are queue here, and spec.queue is the one that counts"} == lost(
        conversion
    )


def test_variables_and_words_are_the_text_that_is_typed() -> None:
    """A boolean and a zero are no empty text, as the note on them says."""
    entries = [{"name": "A", "value": False}, {"name": "B", "value": 0}, {"name": "C"}]
    values = converted({"env": entries, "args": ["--lr", True, 1]}).values
    assert {"A": "false", "B": "0", "C": ""} == values["env"]
    assert ["--lr", "true", "1"] == values["args"]


def test_a_node_selector_has_the_text_that_its_note_names() -> None:
    """YAML reads y as a boolean, and Kubernetes takes a text."""
    conversion = converted({"scheduling": {"nodeSelector": {"x": True}}}, "TorchrunQueue")
    assert {"x": "true"} == conversion.values["defaults"]["scheduling"]["nodeSelector"]
    assert {} == lost(conversion)


def test_args_with_an_open_quote_are_refused() -> None:
    """Nobody knows the words that were meant, and a job without them trains something else."""
    with pytest.raises(InputError) as caught:
        converted({"args": "--name it's --lr 3e-4"})
    assert "spec.args" == caught.value.problem.path
    assert '["--name", "it\'s", "--lr", "3e-4"]' in (caught.value.problem.hint or "")


def test_the_pods_of_a_kai_queue_are_placed_by_kai() -> None:
    """No job would wait in the queue else, which the chart refuses; the other scheduler is lost."""
    spec = {
        "queue": {"name": "team"},
        "scheduling": {"scheduler": "default-scheduler"},
        "podTemplate": {"spec": {"schedulerName": "volcano"}},
    }
    conversion = converted(spec, "TorchrunQueue")
    assert {"dialect": "kai"} == conversion.values["defaults"]["scheduling"]
    paths = {"spec.scheduling.scheduler", "spec.podTemplate.spec.schedulerName"}
    assert paths == set(lost(conversion))
    assert all("team is KAI's" in why for why in lost(conversion).values())


@pytest.mark.parametrize("names_of", [("logger", "trainer"), ("logger", "main")])
def test_a_container_beside_the_one_that_trains_keeps_its_name(names_of: tuple[str, str]) -> None:
    """The one called trainer trains, else the one that asks for GPUs, wherever it stands."""
    helper, main = names_of
    containers = [
        {"name": helper, "image": "fluentbit:1"},
        {"name": main, "image": "y:2", "resources": {"limits": {"nvidia.com/gpu": 2}}},
    ]
    conversion = converted({"podTemplate": {"spec": {"containers": containers}}}, "TorchrunQueue")
    own = conversion.values["defaults"]
    assert {"repository": "y", "tag": "2"} == own["image"]
    assert containers[:1] == own["podTemplate"]["spec"]["containers"]
    assert {} == lost(conversion)


def test_a_mount_of_a_volume_that_is_not_there_is_not_carried() -> None:
    """The values have none, and the verdict says so."""
    mounts = {"additionalMounts": [{"name": "nope", "mountPath": "/v"}]}
    conversion = converted({"volumes": mounts})
    assert {"there is no volume nope"} == set(lost(conversion).values())
    assert Outcome.NOT_CARRIED in {
        verdict.outcome for verdict in conversion.verdicts if "additionalMounts" in verdict.path
    }


TWO = {"numNodes": 2}


def test_a_torchrun_of_the_command_s_own_is_taken_off() -> None:
    """The chart starts one, as the controller did: its options are values, and no rank runs one."""
    command = "torchrun --nproc_per_node 2 --max-restarts=3 train.py --x 'a b'"
    for words in (command, ["bash", "-c", command]):
        limits = {"limits": {"nvidia.com/gpu": 4}}
        values = converted({"command": words, "numNodes": 2, "resources": limits}).values
        assert ["python3", "-u", "train.py", "--x", "a b"] == values["command"]
        assert (4, 2, 2) == (values["gpusPerNode"], values["procsPerNode"], values["nodes"])
        assert 3 == values["torchrun"]["maxRestarts"]


def test_as_many_processes_as_gpus_are_no_value() -> None:
    """The chart starts a process for each GPU."""
    command = "torchrun --nnodes 2 --nproc_per_node 8 t.py"
    conversion = converted({"command": command, "numGPUs": 16} | TWO)
    assert "procsPerNode" not in conversion.values
    assert {} == lost(conversion)


def test_what_stands_before_a_torchrun_of_the_command_s_own_is_setup() -> None:
    """It runs behind the job's own setup."""
    spec = {"command": "export A=b && torchrun t.py", "setupCommand": "pip install a"}
    assert "pip install a\nexport A=b\n" == converted(spec).values["setup"]


def test_a_torchrun_of_fewer_nodes_than_there_are_is_not_carried() -> None:
    """Each pod trained by itself, and here all train together; one is torchrun's own default."""
    for option in ("", "--standalone", "--nnodes 1"):
        conversion = converted({"command": f"torchrun {option} t.py"} | TWO)
        assert "trained by itself" in lost(conversion)["spec.command"]


def test_a_launcher_that_stays_in_the_command_is_named() -> None:
    """Each process of a pod starts it, as it did before."""
    conversion = converted({"command": "accelerate launch t.py"})
    assert any("each process runs it, as before" in note for note in conversion.notes)


QUEUE_OF_KAI: dict[str, Any] = {
    "queue": {"name": "team"},
    "podTemplate": {
        "spec": {
            "containers": [
                {
                    "name": "trainer",
                    "image": "y:2",
                    "imagePullPolicy": "Always",
                    "resources": {"limits": {"nvidia.com/gpu": 8}},
                }
            ]
        }
    },
}


def test_a_job_has_the_image_and_the_gpus_of_its_queue() -> None:
    """Its own count more; both are said, and no note says that the pods of KAI's start apart."""
    queue = manifest("TorchrunQueue", QUEUE_OF_KAI, "q")
    job = {"queue": "q", "image": None} | TWO
    conversion = converted(job, "TorchrunJob", queue)
    image = {"repository": "y", "tag": "2", "pullPolicy": "Always"}
    assert (image, 8) == (conversion.values["image"], conversion.values["gpusPerNode"])
    assert any("gpusPerNode is 8" in note for note in conversion.notes)
    assert not any("starts the pods together" in note for note in conversion.notes)
    own = converted({**job, "numGPUs": 4}, "TorchrunJob", queue).values
    assert (4, False) == (own["gpus"], "gpusPerNode" in own)


def test_a_job_has_the_nodes_that_its_queue_makes_of_its_gpus() -> None:
    """As many as hold them, each with the GPUs of the queue's nodes."""
    queue = manifest("JobQueue", {"nodeResources": {"gpus": 8}}, "q")
    conversion = converted({"jobQueue": "q", "numGPUs": 16}, "TorchrunJob", queue)
    assert {"gpus": 8} == conversion.values["nodeShape"]


@pytest.mark.parametrize(
    ("queue", "is_apart"), [({}, True), ({"scheduling": {"scheduler": "volcano"}}, False)]
)
def test_pods_start_apart_where_nothing_of_their_queue_holds_them(
    queue: dict[str, Any], is_apart: bool
) -> None:
    """A queue that nobody gives may, and a job without one has nothing that does."""
    note = "no scheduler starts the pods together"
    beside = manifest("TorchrunQueue", queue, "q")
    conversion = converted({"queue": "q"} | TWO, "TorchrunJob", beside)
    assert is_apart == any(note in item for item in conversion.notes)
    assert not any(note in item for item in converted({"queue": "q"} | TWO).notes)
    assert any(note in item for item in converted(TWO).notes)


def container_of(spec: dict[str, Any], *others: Any) -> tuple[int, dict[str, Any]]:
    """How many pods the controller makes of a job, and what trains in them."""
    pods = original.pods(manifest("TorchrunJob", spec), others) or []
    return len(pods), dict(pods[0].main)


def test_the_controller_s_pods_have_the_gpus_of_the_job_or_its_queue() -> None:
    """Its own resources count first, then its share of numGPUs, then the queue's container."""
    queue = manifest("TorchrunQueue", QUEUE_OF_KAI, "q")
    shape = manifest("TorchrunQueue", {"nodeResources": {"gpus": 8}}, "q")
    for spec, others, expected in (
        ({"numGPUs": 16, "numNodes": 2, "workers": 3}, (), (2, 8)),
        ({"resources": {"gpu": 3}, "numGPUs": 16}, (), (1, 3)),
        ({"queue": "q", "numNodes": 2}, (queue,), (2, 8)),
        ({"queue": "q", "numGPUs": 16}, (shape,), (2, 8)),
        ({"queue": "another"}, (queue,), (1, None)),
    ):
        number, container = container_of(spec, *others)
        limits = k8s.mapping(container, "resources", "limits")
        assert expected == (number, limits.get("nvidia.com/gpu")), spec


def test_the_controller_s_pods_have_the_image_of_the_job_or_its_queue() -> None:
    """A pull policy goes with the queue's image alone."""
    queue = manifest("TorchrunQueue", QUEUE_OF_KAI, "q")
    _, container = container_of({"queue": "q"}, queue)
    assert ("y:2", "Always") == (container["image"], container["imagePullPolicy"])
    _, container = container_of({"queue": "q", "image": "a:1"}, queue)
    assert ("a:1", None) == (container["image"], container.get("imagePullPolicy"))


def test_the_controller_ran_the_args_behind_the_command() -> None:
    """A script in place of a command is python's."""
    for spec, words in (
        ({"command": "a b", "args": "--c 'd e'"}, ["bash", "-c", "a b --c 'd e'"]),
        ({"script": "t.py", "args": ["--c", "d e"]}, ["bash", "-c", "python t.py --c 'd e'"]),
        ({"command": ["a"], "args": ["b"]}, ["a", "b"]),
    ):
        assert words == container_of(spec)[1]["command"]


@pytest.mark.parametrize("command", ["", 7])
def test_what_is_no_command_is_not_carried(command: Any) -> None:
    """The script is what runs, and a queue's number is its name."""
    conversion = converted({"command": command, "script": "t.py", "queue": 7})
    assert {"spec.command": "it is no command"} == lost(conversion)
    assert (["python", "t.py"], "7") == (conversion.values["command"], conversion.queue)
