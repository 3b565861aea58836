"""compat: slurm: what a rank is told, held against what Slurm's manuals say of each variable."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.convert.slurm import hostlist
from tests.charts.shared.rendered import renderer, templates, variables

if TYPE_CHECKING:
    from collections.abc import Iterator

CHARTS = Path(__file__).parents[2] / "charts"
SCRIPT = CHARTS / "library/files/slurm.sh"
SIZES = [
    {"nodes": 1, "procsPerNode": 1},
    {"nodes": 1, "gpusPerNode": 4},
    {"nodes": 4, "gpusPerNode": 8, "resources": {"perPod": {"requests": {"cpu": "32"}}}},
    {"nodes": 3, "procsPerNode": 2, "resources": {"perPod": {"limits": {"cpu": "7500m"}}}},
]
SHELLS = (("dash",), ("bash",))
# How each launcher tells a rank who it is.
RANK_VARIABLES = {
    "torchrun": {
        "RANK": "rank",
        "LOCAL_RANK": "local",
        "WORLD_SIZE": "all",
        "GROUP_RANK": "node",
        "GROUP_WORLD_SIZE": "nodes",
    },
    "OpenMPI": {
        "OMPI_COMM_WORLD_RANK": "rank",
        "OMPI_COMM_WORLD_LOCAL_RANK": "local",
        "OMPI_COMM_WORLD_SIZE": "all",
    },
    "MPICH": {"PMI_RANK": "rank", "MPI_LOCALRANKID": "local", "PMI_SIZE": "all"},
}


def _ranks(
    env: dict[str, Any], launcher: str, shell: tuple[str, ...], hosts: Path
) -> Iterator[dict[str, str]]:
    """What each rank of a job sees, as entry.sh and the shell around it make it."""
    fixed = {name: text for name, text in env.items() if isinstance(text, str)}
    nodes = int(fixed["SLURM_NNODES"])
    per_node = int(fixed["SLURM_NTASKS"]) // nodes
    names = hostlist.expand(fixed.get("SLURM_JOB_NODELIST", "pod-0"))
    hosts.write_text("".join(f"{name} slots={per_node}\n" for name in names))
    for rank in range(nodes * per_node):
        facts = {"rank": rank, "local": rank % per_node, "all": nodes * per_node}
        facts |= {"node": rank // per_node, "nodes": nodes}
        variables = {name: str(facts[fact]) for name, fact in RANK_VARIABLES[launcher].items()}
        pod = {"HOSTNAME": names[rank // per_node].split(".")[0]}
        if launcher == "torchrun":
            pod["ALLRANKS_NODE_RANK"] = str(rank // per_node)
            variables["MASTER_ADDR"] = "rank-0.example"
        else:
            pod["ALLRANKS_MPI_HOSTFILE"] = str(hosts)
        text = f". {SCRIPT}; allranks_slurm_node; "
        text += "".join(f"export {name}={value}; " for name, value in variables.items())
        output = subprocess.run(
            [*shell, "-euc", text + "allranks_slurm_rank; env"],
            env={"PATH": os.environ["PATH"], **fixed, **pod},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        yield dict(row.split("=", 1) for row in output.splitlines() if row.startswith("SLURM"))


@pytest.mark.parametrize("size", SIZES, ids=lambda size: f"{size['nodes']}-nodes")
@pytest.mark.parametrize("launcher", RANK_VARIABLES)
def test_ranks_are_told_what_the_manual_says(
    launcher: str, size: dict[str, Any], template: Any, tmp_path: Path
) -> None:
    """SLURM_PROCID numbers the tasks of the job, SLURM_LOCALID those of a node, and so on."""
    chart = "torchrun" if launcher == "torchrun" else "mpi"
    values = {"compat": "slurm", "labels": {}, **size}
    manifests = renderer(template, CHARTS / chart)(**values)
    pods = templates(manifests)
    env = variables(next(pod for name, pod in pods.items() if "launcher" not in name))
    shell = SHELLS[size["nodes"] % 2]
    ranks = list(_ranks(env, launcher, shell, tmp_path / "hostfile"))

    nodes = size["nodes"]
    per_node = size.get("procsPerNode") or size["gpusPerNode"]
    numbers = [rank_env["SLURM_PROCID"] for rank_env in ranks]
    assert [str(rank) for rank in range(nodes * per_node)] == numbers
    for rank, rank_env in enumerate(ranks):
        assert str(rank % per_node) == rank_env["SLURM_LOCALID"]
        assert str(rank // per_node) == rank_env["SLURM_NODEID"]
        assert str(nodes * per_node) == rank_env["SLURM_NTASKS"] == rank_env["SLURM_NPROCS"]
        assert str(nodes) == rank_env["SLURM_NNODES"] == rank_env["SLURM_JOB_NUM_NODES"]
        assert str(per_node) == rank_env["SLURM_NTASKS_PER_NODE"]
        count, times = re.fullmatch(
            r"(\d+)(?:\(x(\d+)\))?", rank_env["SLURM_TASKS_PER_NODE"]
        ).groups()
        assert (per_node, nodes) == (int(count), int(times or 1))
        hosts = hostlist.expand(rank_env["SLURM_JOB_NODELIST"])
        assert nodes == len(hosts) == len(set(hosts))
        # JAX reads no more of it than up to the first comma or bracket.
        assert hosts[0] == re.split(r"[,\[]", rank_env["SLURM_STEP_NODELIST"])[0]
        assert hosts[rank // per_node].split(".")[0] == rank_env["SLURMD_NODENAME"]
        assert rank_env["SLURM_NODELIST"] == rank_env["SLURM_JOB_NODELIST"]
        assert hosts == hostlist.expand(rank_env["SLURM_STEP_NODELIST"])
        assert 0 < int(rank_env["SLURM_CPUS_ON_NODE"])
        cpus, _, times = rank_env["SLURM_JOB_CPUS_PER_NODE"].partition("(x")
        assert (cpus, times or "1)") == (rank_env["SLURM_CPUS_ON_NODE"], f"{nodes})")
        assert rank_env["SLURM_JOB_ID"] == rank_env["SLURM_JOBID"] == env["SLURM_JOB_ID"]
        assert re.fullmatch(r"[1-9]\d{5,9}", rank_env["SLURM_JOB_ID"])
        assert size.get("gpusPerNode", 0) == int(rank_env.get("SLURM_GPUS_ON_NODE", 0))
        gpus = ",".join(map(str, range(size.get("gpusPerNode", 0))))
        assert gpus == rank_env.get("SLURM_JOB_GPUS", "") == rank_env.get("SLURM_STEP_GPUS", "")
        assert rank_env["SLURM_TASKS_PER_NODE"] == rank_env["SLURM_STEP_TASKS_PER_NODE"]
        address = "rank-0.example" if launcher == "torchrun" else hosts[0]
        assert address == rank_env["SLURM_LAUNCH_NODE_IPADDR"] == rank_env["SLURM_SRUN_COMM_HOST"]
    if "resources" in size:
        cpus = {4: 32, 3: 7}[nodes]
        assert (cpus, max(1, cpus // per_node)) == (
            int(ranks[0]["SLURM_CPUS_ON_NODE"]),
            int(ranks[0]["SLURM_CPUS_PER_TASK"]),
        )


@pytest.mark.parametrize("shell", ["dash", "bash"])
def test_setup_is_run_by_bash_as_slurm_runs_it(shell: str, tmp_path: Path) -> None:
    """Whichever is an image's sh: bash of this name ends where a file to source is missing."""
    sh = tmp_path / "sh"
    sh.symlink_to(str(shutil.which(shell)))
    entry = SCRIPT.with_name("entry.sh").read_text(encoding="utf-8")
    (tmp_path / "entry.sh").write_text(f"{entry}\nallranks_setup\n", encoding="utf-8")
    (tmp_path / "slurm.sh").symlink_to(SCRIPT)
    setup = "set +e\nsource /nowhere/activate\nnames=(a b)\necho ${#names[@]} names\n"
    (tmp_path / "setup.sh").write_text(setup, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "ALLRANKS_COMPAT": "slurm"}
    process = subprocess.run(
        [sh, tmp_path / "entry.sh"], env=env, capture_output=True, text=True, check=False
    )
    assert (0, "2 names\n") == (process.returncode, process.stdout)


def test_what_a_sourced_file_declares_outlives_setup(tmp_path: Path) -> None:
    """`export -p >file` writes `declare -x`, and bash makes that local to a function."""
    entry = SCRIPT.with_name("entry.sh").read_text(encoding="utf-8")
    shown = 'printf \'%s\\n\' "$TEXT" "${LIST[1]}" "${MAP[k]}" "$*"; env | grep -c \'^TEXT=\'\n'
    (tmp_path / "entry.sh").write_text(f"{entry}\nallranks_setup\n{shown}", encoding="utf-8")
    declared = (
        "declare -x TEXT='a \"b\" $c'\ndeclare -a LIST=(a 'b c')\ndeclare -A MAP=([k]='v w')\n"
    )
    (tmp_path / "saved.sh").write_text(declared, encoding="utf-8")
    (tmp_path / "setup.sh").write_text(f"source {tmp_path}/saved.sh\n", encoding="utf-8")
    words = ["bash", str(tmp_path / "entry.sh"), "its", "words"]
    process = subprocess.run(words, capture_output=True, text=True, check=True)
    assert ['a "b" $c', "b c", "v w", "its words", "1"] == process.stdout.splitlines()


@pytest.mark.parametrize("has_hosts", [False, True])
@pytest.mark.parametrize("shell", SHELLS)
def test_an_mpirun_of_the_pods_own_calls_no_srun(
    shell: tuple[str, ...], has_hosts: bool, tmp_path: Path
) -> None:
    """An MPI takes Slurm's launcher by SLURM_JOBID; in an MPI job the chart names another."""
    hosts = tmp_path / "hostfile"
    if has_hosts:
        hosts.write_text("pod-0 slots=1\n")
    text = f'. {SCRIPT}; allranks_slurm_node; echo "$OMPI_MCA_plm $HYDRA_LAUNCHER $PRTE_MCA_ras"'
    own = {"ALLRANKS_MPI_HOSTFILE": str(hosts), "HOSTNAME": "pod-0", "PRTE_MCA_ras": "own"}
    output = subprocess.run(
        [*shell, "-ec", text],
        env={"PATH": os.environ["PATH"], **own},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert output == ("  own\n" if has_hosts else "^slurm fork own\n")


def test_the_nodes_of_a_trial_are_its_own(template: Any) -> None:
    """A script of an array that asks for its nodes found one, that of each pod."""
    sweep = {
        "parameters": {"seed": {"values": [1, 2], "arg": "--seed"}},
        "trial": {"workload": "torchrun"},
    }
    render = renderer(template, CHARTS / "sweep")
    pods = templates(render(compat="slurm", nodes=2, gpusPerNode=1, sweep=sweep))
    lists = [variables(pod).get("SLURM_JOB_NODELIST") for pod in pods.values()]
    assert lists == ["demo-0-[0-1].demo-0", "demo-1-[0-1].demo-1"]
    (alone,) = templates(render(compat="slurm", nodes=1, sweep=sweep)).values()
    assert "SLURM_JOB_NODELIST" not in variables(alone)


def test_what_the_user_sets_stays(template: Any) -> None:
    """A variable of `env` wins over what the job would set, and without compat nothing is set."""
    render = renderer(template, CHARTS / "torchrun")
    (own,) = templates(render(compat="slurm", env={"SLURM_NTASKS": "7"})).values()
    assert variables(own)["SLURM_NTASKS"] == "7"
    (plain,) = templates(render()).values()
    assert not [name for name in variables(plain) if name.startswith("SLURM")]


UNASKED = ["SLURM_CPUS_PER_TASK", "SLURM_GPUS_PER_NODE", "SLURM_NTASKS_PER_NODE"]


@pytest.mark.parametrize("launcher", RANK_VARIABLES)
def test_what_no_option_asks_for_is_left_out(launcher: str, template: Any, tmp_path: Path) -> None:
    """Slurm sets these for an option alone; ranks have the same numbers without them."""
    chart = "torchrun" if launcher == "torchrun" else "mpi"
    values = {"compat": "slurm", "slurm": {"unset": UNASKED}, "labels": {}, **SIZES[2]}
    pods = templates(renderer(template, CHARTS / chart)(**values))
    env = variables(next(pod for name, pod in pods.items() if "launcher" not in name))
    ranks = list(_ranks(env, launcher, ("dash",), tmp_path / "hostfile"))
    assert not [name for name in UNASKED for rank_env in ranks if name in rank_env]
    assert [str(rank) for rank in range(32)] == [rank_env["SLURM_PROCID"] for rank_env in ranks]
    assert "8(x4)" == ranks[0]["SLURM_TASKS_PER_NODE"]


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_a_pod_is_the_first_task_of_its_node(shell: tuple[str, ...]) -> None:
    """Before its ranks start, a pod has the number that Slurm gives a batch script's first task."""
    text = f'. {SCRIPT}; allranks_slurm_node; echo "$SLURM_PROCID"'
    for tasks, number in (("4", "0"), ("4(x3)", "8"), ("12(x20)", "24")):
        node = "2" if "x" in tasks else "0"
        env = {
            "PATH": os.environ["PATH"],
            "SLURM_TASKS_PER_NODE": tasks,
            "ALLRANKS_NODE_RANK": node,
        }
        output = subprocess.run(
            [*shell, "-euc", text], env=env, capture_output=True, text=True, check=True
        ).stdout
        assert output == f"{number}\n"


def test_the_gpus_of_a_pod_are_named_to_cuda(template: Any) -> None:
    """As Slurm names them; a program splits the list. Other makers' runtimes have other names."""
    render = renderer(template, CHARTS / "torchrun")
    size = {"compat": "slurm", "gpusPerNode": 2}

    def visible(**values: Any) -> Any:
        (pod,) = templates(render(**size, **values)).values()
        return variables(pod).get("CUDA_VISIBLE_DEVICES")

    assert visible() == "0,1"
    assert visible(env={"CUDA_VISIBLE_DEVICES": "1"}) == "1"
    assert visible(gpuResource="amd.com/gpu") is None


def test_the_number_of_a_job_is_that_of_its_name(template: Any) -> None:
    """The same for each start of a run, and another for another run."""
    render = renderer(template, CHARTS / "torchrun")
    numbers = []
    for sample in ({}, {"nodes": 2}):
        (pod,) = templates(render(compat="slurm", **sample)).values()
        numbers.append(variables(pod)["SLURM_JOB_ID"])
    assert numbers[0] == numbers[1]


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_each_task_of_an_array_has_a_number_of_its_own(shell: tuple[str, ...]) -> None:
    """And all have that of the array."""
    text = f'. {SCRIPT}; allranks_slurm_node; echo "$SLURM_ARRAY_JOB_ID $SLURM_JOB_ID $SLURM_JOBID"'
    env = {"PATH": os.environ["PATH"], "SLURM_JOB_ID": "100", "SLURM_ARRAY_TASK_ID": "4"}
    output = subprocess.run(
        [*shell, "-euc", text], env=env, capture_output=True, text=True, check=True
    ).stdout
    assert output == "100 105 105\n"


@pytest.mark.parametrize("shell", SHELLS, ids="-".join)
def test_tasks_of_an_array_that_are_releases_share_its_number_and_name(
    shell: tuple[str, ...],
) -> None:
    """Each trial is a release; a folder that is called by the array is one for all of them."""
    text = (
        f'. {SCRIPT}; allranks_slurm_node; echo "$SLURM_ARRAY_JOB_ID $SLURM_JOB_NAME $SLURM_JOB_ID"'
    )
    outputs = []
    for task, own, name in (("4", "100", "sweep-a1"), ("5", "300", "sweep-b2"), ("6", "7", "mine")):
        env = {
            "PATH": os.environ["PATH"],
            "SLURM_JOB_ID": own,
            "SLURM_JOB_NAME": name,
            "SLURM_ARRAY_TASK_ID": task,
            "ALLRANKS_SWEEP": "sweep",
            "ALLRANKS_TRIAL_NAME": name if task != "6" else "sweep-c3",
        }
        run = subprocess.run(
            [*shell, "-euc", text], env=env, capture_output=True, text=True, check=True
        )
        outputs.append(run.stdout.split())
    array = int(outputs[0][0])
    assert [
        [str(array), "sweep", str(array + 5)],
        [str(array), "sweep", str(array + 6)],
        [str(array), "mine", str(array + 7)],
    ] == outputs
