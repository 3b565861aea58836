"""Texts that have the first node's name in them: a URL, an address with its port, a folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 4 --ntasks-per-node=1 --gpus-per-node=8"
_HOSTS = "scontrol show hostnames $SLURM_JOB_NODELIST"
_FIRST = f"$({_HOSTS} | head -n1)"
_HEAD = f"HEAD={_FIRST}"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", _NODES, *rows, "")).encode(), "job.sbatch")


def _verdict(conversion: Conversion, start: str) -> Verdict:
    [verdict] = [own for own in conversion.verdicts if own.path.startswith(start)]
    return verdict


@pytest.mark.parametrize(
    ("rows", "text"),
    [
        ((f"A={_FIRST}:1234",), "A=$MASTER_ADDR:1234"),
        ((f'A="tcp://{_FIRST}:23456"',), 'A="tcp://$MASTER_ADDR:23456"'),
        ((f"nodes=($({_HOSTS}))", "A=${nodes[0]}:8476"), "A=$MASTER_ADDR:8476"),
        ((_HEAD, "A=http://$HEAD:80/m"), "HEAD=$MASTER_ADDR\nA=http://$HEAD:80/m"),
        (("HEAD=$(hostname -s)", "A=redis://${HEAD}:6/0"), "A=redis://${HEAD}:6/0"),
        ((_HEAD, "A=/out/$HEAD/$SLURM_JOB_ID"), "HEAD=$MASTER_ADDR\nA=/out/$HEAD/$SLURM_JOB_ID"),
        ((_HEAD, "P=$HEAD:80", "A=http://$P/m"), "P=$HEAD:80\nA=http://$P/m"),
        ((_HEAD, f"A={_FIRST}_run"), "A=${MASTER_ADDR}_run"),
        ((_HEAD, "A=$(getent hosts $HEAD | awk '{print $1}')"), "A=$MASTER_ADDR"),
        (
            (f"MASTER_ADDR={_FIRST}", "MASTER_PORT=29500", 'A="tcp://${MASTER_ADDR}:$MASTER_PORT"'),
            'A="tcp://${MASTER_ADDR}:$MASTER_PORT"',
        ),
    ],
)
def test_the_rest_of_a_text_with_the_first_nodes_name_stays(
    rows: tuple[str, ...], text: str
) -> None:
    """It became rank 0's address alone, without its port, its scheme or its path."""
    conversion = _convert(*rows, "srun python a.py --to $A")
    command = conversion.values["command"][-1]
    assert f"{text}\nexec python a.py --to $A" in command
    assert () == conversion.lost
    row = rows[-1]
    assert row.endswith("}')") or "rank 0's address" in _verdict(conversion, row[:12]).why


@pytest.mark.parametrize("option", ["", " --to $A"])
def test_a_program_finds_what_the_script_exports(option: str) -> None:
    """Whether its words have it or not: JAX reads JAX_COORDINATOR_ADDRESS itself."""
    conversion = _convert(f"export A={_FIRST}:1234", f"srun python a.py{option}")
    text = f"export A=$MASTER_ADDR:1234\nexec python a.py{option}"
    assert ["bash", "-c", text] == conversion.values["command"]


def test_what_only_the_launcher_reads_is_in_no_command() -> None:
    """Where torchrun's workers meet is the chart's to say."""
    rows = (f"export HEAD={_FIRST}", "export END=$HEAD:29500")
    conversion = _convert(*rows, "srun torchrun --nnodes 4 --rdzv_endpoint $END a.py")
    assert "a.py" == conversion.values["command"][-1]


@pytest.mark.parametrize(
    ("rows", "step", "text", "suffix"),
    [
        ((f"MASTER_ADDR={_FIRST}-ib.local",), "${MASTER_ADDR}:1", "${MASTER_ADDR}:1", "-ib.local"),
        ((_HEAD,), '"tcp://$HEAD-ib0:5"', '"tcp://$HEAD:5"', "-ib0"),
        ((_HEAD, 'A="tcp://$HEAD.cluster.local:5"'), "$A", 'A="tcp://$HEAD:5"', ".cluster.local"),
        ((_HEAD, "MASTER_IP=${HEAD}i"), "$MASTER_IP", "MASTER_IP=${HEAD}\n", "i"),
    ],
)
def test_a_name_in_another_network_is_left_off(
    rows: tuple[str, ...], step: str, text: str, suffix: str
) -> None:
    """Rank 0's address is that of its pod, and no pod has a name with such an ending."""
    conversion = _convert(*rows, f"srun python a.py --to {step}")
    assert text in conversion.values["command"][-1]
    assert f"{text}{suffix}" not in conversion.values["command"][-1]
    whys = [own for own in conversion.verdicts if "network of the old cluster" in own.why]
    assert len(whys) == 1
    assert suffix in f"{whys[0].path} {whys[0].why}"


def test_a_word_behind_the_first_nodes_name_stays() -> None:
    """A name of a run is no name of a node."""
    conversion = _convert(_HEAD, "RUN=$HEAD-run", "srun python a.py --name $RUN --log $HEAD.log")
    assert (
        "RUN=$HEAD-run\nexec python a.py --name $RUN --log $HEAD.log"
        in (conversion.values["command"][-1])
    )


def test_the_configuration_of_tensorflow_is_lost() -> None:
    """It was said to be rank 0's address, which TensorFlow does not read."""
    row = "export TF_CONFIG=$(python config.py $SLURM_JOB_NODELIST)"
    conversion = _convert(row, "srun python a.py")
    assert ["python", "a.py"] == conversion.values["command"]
    [verdict] = conversion.lost
    assert Outcome.NOT_CARRIED is verdict.outcome
    assert "elastic.framework: tensorflow" in verdict.why


def test_a_port_that_a_sum_draws_is_the_launchers() -> None:
    """Each rank would draw another one."""
    rows = (f"MASTER_ADDR={_FIRST}", "export RDZV_PORT=$((10000 + RANDOM % 50000))")
    conversion = _convert(*rows, "srun python a.py --port $RDZV_PORT")
    assert "export RDZV_PORT=$MASTER_PORT\n" in conversion.values["command"][-1]


def test_a_folder_with_the_first_nodes_name_is_made_by_the_ranks() -> None:
    """Setup knows no such name, and the line was said to be the launcher's."""
    rows = (_HEAD, "OUT=/out/$HEAD/logs", "mkdir -p $OUT")
    text = "HEAD=$MASTER_ADDR\nOUT=/out/$HEAD/logs\nmkdir -p $OUT\nexec python a.py"
    conversion = _convert(*rows, "srun python a.py")
    assert ["bash", "-c", text] == conversion.values["command"]
    assert "each rank makes it" in _verdict(conversion, "mkdir").why


def test_words_that_the_script_exports_for_a_program_are_in_the_command() -> None:
    """They were said to be where the command reads them, which it does not."""
    conversion = _convert(_HEAD, 'export OPTS="--coord $HEAD:1 --x 2"', "srun python a.py")
    text = 'HEAD=$MASTER_ADDR\nexport OPTS="--coord $HEAD:1 --x 2"\nexec python a.py'
    assert ["bash", "-c", text] == conversion.values["command"]


def test_words_that_are_made_of_those_with_the_first_nodes_name_are_in_the_command() -> None:
    """Setup read a variable that it does not have, whose line was said to be the command's."""
    rows = (_HEAD, 'ARGS="--host $HEAD', ' --x 1"', 'export CMD="a.py $ARGS --y"')
    conversion = _convert(*rows, 'srun bash -c "python $CMD"')
    text = "\n".join(("HEAD=$MASTER_ADDR", *rows[1:], "exec python $CMD"))
    assert text == conversion.values["command"][-1]
    assert "setup" not in conversion.values
    assert () == conversion.lost


_FREE_PORT = (
    "#!/bin/bash",
    "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4",
    "export MASTER_ADDR=$(scontrol show hostnames $SLURM_JOB_NODELIST | head -n 1)",
    "export MASTER_PORT=29500",
)


@pytest.mark.parametrize(
    "rows",
    [
        ('if ss -tulpn | grep -q ":$MASTER_PORT "; then', "  MASTER_PORT=29501", "fi"),
        ('ss -tuln | grep -q ":$MASTER_PORT " && MASTER_PORT=29501',),
        ("if lsof -i:$MASTER_PORT >/dev/null; then MASTER_PORT=29501; fi",),
        ("while nc -z localhost $MASTER_PORT; do MASTER_PORT=$((MASTER_PORT+1)); done",),
        ("until ! netstat -an | grep :$MASTER_PORT", "do export MASTER_PORT=29501; done"),
        ("if (echo > /dev/tcp/localhost/$MASTER_PORT) 2>&1; then MASTER_PORT=29501; fi",),
        ("fuser $MASTER_PORT/tcp && MASTER_PORT=29501",),
        ("lsof -ti:$MASTER_PORT | xargs -r kill -9",),
    ],
)
def test_a_search_for_a_free_port_is_the_launcher_s(rows: tuple[str, ...]) -> None:
    """It works with no name of a node: the ranks meet at a port of rank 0's pod."""
    step = "srun torchrun --nnodes=2 --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT a.py"
    text = "\n".join((*_FREE_PORT, *rows, step, ""))
    conversion = job.convert(text.encode(), "job.sbatch")
    assert not conversion.lost
    [why] = [own.why for own in conversion.verdicts if own.line == len(_FREE_PORT) + 1]
    assert why == "it is about where the ranks meet, which the launcher arranges"


@pytest.mark.parametrize(
    "row",
    [
        'if ss -tulpn | grep -q ":$MASTER_PORT "; then python fix.py $MASTER_PORT; fi',
        "nc $MASTER_ADDR $MASTER_PORT < a.txt",
        "tar c . | nc -l $MASTER_PORT",
    ],
)
def test_a_line_that_does_more_with_a_port_is_lost(row: str) -> None:
    """A program of the project's own, or what sends a file."""
    step = "srun torchrun --nnodes=2 --rdzv_endpoint=$MASTER_ADDR:$MASTER_PORT a.py"
    text = "\n".join((*_FREE_PORT, row, step, ""))
    lost = job.convert(text.encode(), "job.sbatch").lost
    assert [own.line for own in lost] == [len(_FREE_PORT) + 1]
