from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert import original
from allranks.errors import InputError
from allranks.service import convert as service
from tests.converted import DATA, documents, lost, refusal, sample, text_as_jobs

if TYPE_CHECKING:
    from pathlib import Path


def test_a_role_of_torchrun_is_a_job() -> None:
    """The role that dist.ddp makes is a torchrun job of as many nodes, with what it asks for."""
    conversion = sample("appdef.yaml", "ddp")
    values = conversion.values
    assert ("torchrun", 2, 4, 3) == (
        values["workload"],
        values["nodes"],
        values["gpusPerNode"],
        values["runPolicy"]["backoffLimit"],
    )
    assert {"cpu": "8", "memory": "16384M", "vpc.amazonaws.com/efa": "1"} == (
        values["resources"]["perPod"]["limits"]
    )
    assert set() == lost(conversion)


def test_macros_are_put_in() -> None:
    """What TorchX puts in for a macro is there: the name, and which replica a pod is."""
    values = sample("appdef.yaml", "ddp").values
    assert "ddp" == values["env"]["APP"]
    assert "exec python3 -u train.py --index ${JOB_COMPLETION_INDEX}" == values["command"][2]


def test_it_is_known_by_its_form() -> None:
    """What torchx prints has no kind, and is known by its roles."""
    lines = (DATA / "appdef.yaml").read_text().splitlines()
    text = "\n".join(line for line in lines if not line.startswith(("apiVersion", "kind")))
    assert ["AppDef"] == [conversion.kind for conversion in text_as_jobs(text).conversions]


OF_PYTHON = """\
{ 'metadata': {},
  'name': 'train',
  'roles': [ { 'args': ['-c', 'torchrun --nnodes 2 '
                        '--nproc_per_node 4 train.py'],
               'base_image': None,
               'entrypoint': 'bash',
               'image': 'ghcr.io/x/y:1',
               'num_replicas': 2,
               'retry_policy': <RetryPolicy.APPLICATION: 'APPLICATION'>}]}
"""
OF_YAML = """\
name: train
roles:
- image: ghcr.io/x/y:1
  entrypoint: bash
  args: [-c, torchrun --nnodes 2 --nproc_per_node 4 train.py]
  num_replicas: 2
"""
HEADINGS = "some log\n=== APPLICATION ===\n{}\n=== SCHEDULER REQUEST ===\nkind: Job\na: b: c\n"


@pytest.mark.parametrize(("text", "line"), [(OF_PYTHON, 3), (OF_YAML, 8)])
def test_what_a_dry_run_prints_is_read(tmp_path: Path, text: str, line: int) -> None:
    """The application alone, on its own lines, as Python writes it or as YAML."""
    path = tmp_path / "dry-run.txt"
    path.write_text(HEADINGS.format(text))
    [conversion] = service.convert((str(path),)).conversions
    assert ("AppDef", "train", 2) == (conversion.kind, conversion.name, conversion.values["nodes"])
    assert [line] == [
        verdict.line for verdict in conversion.verdicts if verdict.path == "roles[0].num_replicas"
    ]


@pytest.mark.parametrize("text", ["{ 'name': 'a'", "{(1, 2): 3}", "name: [", ""])
def test_what_is_no_application_is_wrong_input(tmp_path: Path, text: str) -> None:
    """A part of such a dump, or another text between its headings, is refused in words."""
    path = tmp_path / "dry-run.txt"
    path.write_text(HEADINGS.format(text))
    with pytest.raises(InputError):
        service.convert((str(path),))


def test_several_roles_are_refused() -> None:
    """Roles beside each other are no torchrun job, and that is said."""
    problem = refusal(
        "name: a\nroles:\n- {name: trainer, image: i, entrypoint: train}\n"
        "- {name: reader, image: i, entrypoint: read}\n"
    )
    assert "it has the roles trainer, reader, and a torchrun job has one" == problem.message


ROLE = """\
name: t
roles:
- name: trainer
  image: "a/b:1"
  entrypoint: python
  args: [t.py, --app, "${app_id}", "${img_root}/x", "${replica_id}"]
  env: {APP: "${app_id}"}
  num_replicas: 2
  resource: {cpu: 2, gpu: 0, memMB: 512, devices: {a/b: 1}, capabilities: {CAPABILITY: p4d}}
  mounts: [{type: volume, src: claim, dst_path: /c}, {type: bind, src_path: /a, dst_path: /b,
    read_only: true}]
"""


def test_torchx_makes_a_pod_for_each_replica() -> None:
    """With its macros filled in, and the same amounts as requests and as limits."""
    text = ROLE.replace("CAPABILITY", "node.kubernetes.io/instance-type")
    [document] = documents(text)
    pods = original.pods(document.data) or []
    assert ("t", ["trainer-0", "trainer-1"]) == (document.name, [pod.name for pod in pods])
    spec = pods[1].spec
    amounts = {"a/b": "1", "cpu": "2", "memory": "512M"}
    assert {
        "name": "trainer",
        "image": "a/b:1",
        "command": ["python", "t.py", "--app", "t", "/x", "$(JOB_COMPLETION_INDEX)"],
        "env": [{"name": "APP", "value": "t"}],
        "resources": {"requests": amounts, "limits": amounts},
        "volumeMounts": [
            {"name": "mount-0", "mountPath": "/c"},
            {"name": "mount-1", "mountPath": "/b", "readOnly": True},
        ],
    } == spec["containers"][0]
    assert [
        {"name": "mount-0", "persistentVolumeClaim": {"claimName": "claim"}},
        {"name": "mount-1", "hostPath": {"path": "/a"}},
    ] == spec["volumes"]
    assert {"node.kubernetes.io/instance-type": "p4d"} == spec["nodeSelector"]
