"""A step of one task whose launcher has hosts of its own: the ranks are on all nodes of the job."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.errors import InvalidValues

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_HOSTS = "scontrol show hostnames $SLURM_JOB_NODELIST | sed 's/$/ slots=8/' > hosts"


def _convert(*rows: str, tasks: int = 8) -> Conversion:
    options = f"#SBATCH -N 4 --ntasks-per-node={tasks} --gpus-per-node=8"
    return job.convert("\n".join(("#!/bin/bash", options, *rows, "")).encode(), "train.sbatch")


@pytest.mark.parametrize(
    "launcher",
    [
        "mpirun -np 32 --hostfile hosts",
        "mpiexec -n 32 -H a:8,b:8,c:8,d:8",
        "deepspeed --hostfile hosts",
        "deepspeed -H hosts --launcher pdsh",
        "horovodrun -np 32 --hostfile hosts",
    ],
)
@pytest.mark.parametrize("step", ["srun -N1 -n1", "srun -n 1 -w $(hostname)", "srun --ntasks=1"])
def test_a_step_of_one_launcher_has_the_nodes_of_the_job(step: str, launcher: str) -> None:
    """Without srun in front it had; srun chose the node of the launcher alone."""
    of_step = _convert(_HOSTS, f"{step} {launcher} python a.py")
    plain = _convert(_HOSTS, f"{launcher} python a.py")
    assert of_step.values == plain.values
    assert of_step.values["nodes"] == 4
    whys = [own.why for own in of_step.verdicts if own.to == "command"]
    assert "which has hosts of its own" in whys[0]
    assert not [own for own in of_step.verdicts if "--node" in own.path and own.line > 2]


@pytest.mark.parametrize("launcher", ["mpirun -np 8 -H localhost:8", "deepspeed", "torchrun"])
def test_a_launcher_of_its_own_machine_has_the_node_of_its_step(launcher: str) -> None:
    """No word names another."""
    conversion = _convert(f"srun -N1 -n1 {launcher} python a.py")
    assert conversion.values["nodes"] == 1


@pytest.mark.parametrize(
    "option",
    [
        "--rankfile rf",
        "-rf rf",
        "--rankfile=rf",
        "--map-by rankfile:file=rf",
        "--map-by=rankfile:file=rf",
        "-mca rmaps_rank_file_path rf",
    ],
)
def test_a_file_that_places_ranks_on_hosts_is_left_out(option: str) -> None:
    """Its hosts are the old cluster's; mpirun ends at a host that it has no slots on."""
    conversion = _convert(f"mpirun -np 32 {option} --bind-to none python a.py --rankfile x")
    words = ["mpirun", "-np", "32", "--bind-to", "none", "python", "a.py", "--rankfile", "x"]
    assert conversion.values["command"] == words
    (lost,) = conversion.lost
    assert lost.path == f"mpirun {option}"
    assert "--map-by" in lost.why


@pytest.mark.parametrize(
    ("launcher", "option", "fix"),
    [
        ("mpirun", "--app appfile", "write the programs into the command"),
        ("mpiexec", "-configfile cf", "write the programs into the command"),
        ("horovodrun", "--host-discovery-script ./d.sh", "/etc/mpi/discover_hosts.sh"),
    ],
)
def test_a_file_that_may_name_hosts_is_said(launcher: str, option: str, fix: str) -> None:
    """The command has it as it was, as what it starts may be there alone."""
    conversion = _convert(f"{launcher} -np 32 {option} python a.py")
    assert option in " ".join(conversion.values["command"])
    (lost,) = conversion.lost
    assert lost.path == f"{launcher} {option}"
    assert fix in lost.why


def test_a_list_of_hosts_in_a_here_document_is_the_launchers() -> None:
    """No line reads it once `--hostfile` is gone; a file that another line reads is lost."""
    document = "cat > hosts <<EOF\n$(scontrol show hostnames $SLURM_JOB_NODELIST)\nEOF\n"
    head = "#!/bin/bash\n#SBATCH --nodes=2 --ntasks-per-node=1 --gpus-per-node=4\n"
    step = "deepspeed --hostfile=hosts train.py\n"
    conversion = job.convert(f"{head}{document}{step}".encode(), "a.sbatch")
    assert not conversion.lost
    assert "scontrol" not in conversion.values.get("setup", "")
    read_again = f"{head}{document}python count.py hosts\n{step}"
    assert job.convert(read_again.encode(), "a.sbatch").lost


_LOOP = (
    'for n in $(scontrol show hostnames "$SLURM_JOB_NODELIST"); do',
    '  F="$F$n:$SLURM_NTASKS_PER_NODE,"',
    "done",
)


@pytest.mark.parametrize(
    "rows",
    [
        ('F="-H "', *_LOOP, "mpirun -np $SLURM_NTASKS $F -bind-to none python a.py"),
        ('F="-H "', *_LOOP, "F=${F%?}", "mpirun $F -bind-to none python a.py"),
        ("F=--host=", *_LOOP, 'F="${F%,}"', "mpirun -bind-to none $F python a.py"),
        ('F="-host "', _LOOP[0], "F+=$n,", "done", "mpirun -bind-to none $F python a.py"),
    ],
)
def test_an_option_of_hosts_that_a_loop_makes_is_left_out(rows: tuple[str, ...]) -> None:
    """It stayed without its hosts, and took the word behind it for some."""
    conversion = _convert(*rows)
    assert conversion.values["command"] == ["mpirun", "-bind-to", "none", "python", "a.py"]
    assert not conversion.lost
    assert "mpirun -H $F" in [own.path for own in conversion.verdicts]


@pytest.mark.parametrize(
    "rows",
    [
        ('F="-H a"', '[ -z "$A" ] || F="$F --mca b c"', "mpirun $F python a.py"),
        ('F="-x A"', '[ -z "$A" ] || F="-H b"', "mpirun $F python a.py"),
    ],
)
def test_options_beside_that_of_the_hosts_stay(rows: tuple[str, ...]) -> None:
    """They are none of the list's."""
    assert "$F" in _convert(*rows).values["command"][2]


@pytest.mark.parametrize(
    ("options", "nodes", "path"),
    [
        ("--hostfile hosts --num_nodes 1", 1, "deepspeed"),
        ("--hostfile hosts --include worker-1", 1, "deepspeed"),
        ("--hostfile hosts --num_nodes 2", 2, "--num_nodes"),
        ("--hostfile hosts --include worker-1@worker-2", 2, "--num_nodes"),
        ("--hostfile hosts", 4, "--hostfile hosts"),
        ("--hostfile hosts --num_nodes 4", 4, ""),
    ],
)
def test_a_deepspeed_has_the_hosts_that_it_is_told_of(options: str, nodes: int, path: str) -> None:
    """Each of the job's nodes had ranks, whatever its own words said; its file is not read."""
    conversion = _convert(f"deepspeed {options} a.py")
    assert nodes == conversion.values["nodes"]
    own = [own.path for own in conversion.verdicts if own.to.startswith("nodes") and own.line > 2]
    assert [path] * bool(path) == [text[: len(path)] for text in own]


def test_hosts_that_a_deepspeed_leaves_out_are_the_reason() -> None:
    """It was said that pods have no ssh."""
    with pytest.raises(InvalidValues) as caught:
        _convert("deepspeed --hostfile hosts --exclude worker-2 a.py")
    assert caught.value.problems[0].message.startswith("--exclude names a host")


def test_a_launcher_of_fewer_machines_has_as_many_nodes() -> None:
    """A loop starts it on some of the job's nodes; the others would wait for a place."""
    loop = (
        "hosts=($(scontrol show hostnames))",
        "for rank in {0..1}; do",
        "  srun -N 1 -w ${hosts[$rank]} accelerate launch --num_machines 2 \\",
        "    --machine_rank $rank a.py &",
        "done",
        "wait",
    )
    conversion = _convert(*loop)
    assert 2 == conversion.values["nodes"]
    [why] = [own.why for own in conversion.verdicts if own.path == "--num_machines 2"]
    assert "the job has 4 nodes, and the launcher trains with 2" in why


def test_a_launcher_of_several_tasks_runs_once_on_each_node() -> None:
    """As a torchrun, of which it was said alone."""
    conversion = _convert("srun accelerate launch a.py", tasks=2)
    [why] = [own.why for own in conversion.verdicts if own.path == "srun"]
    assert why == "accelerate starts the ranks of a node, and so runs once on each, not 2 times"


def test_an_agent_of_mpiruns_is_the_charts() -> None:
    """Another program has neither the port nor the keys of the pods."""
    row = 'mpirun --mca plm_rsh_agent "ssh -q" -np 8 ./a.out'
    conversion = job.convert(f"#!/bin/bash\n#SBATCH -N 2 -n 8\n{row}\n".encode(), "a.sh")
    assert ["mpirun", "-np", "8", "./a.out"] == conversion.values["command"]
    assert "mpirun --mca plm_rsh_agent" in {verdict.path for verdict in conversion.verdicts}
