"""What a script names of the old cluster's network: the report has its line."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _named(conversion: Conversion) -> list[Verdict]:
    words = ("interface", "adapter", "proxy of", "network: write", "without an index")
    return [own for own in conversion.verdicts if any(word in own.why for word in words)]


@pytest.mark.parametrize(
    ("rows", "path"),
    [
        (("export NCCL_SOCKET_IFNAME=ib0", "srun python a.py"), "NCCL_SOCKET_IFNAME=ib0"),
        (("A=hsn", "export GLOO_SOCKET_IFNAME=$A", "srun python a.py"), "GLOO_SOCKET_IFNAME=$A"),
        (("export NCCL_SOCKET_IFNAME=^lo,eth", "srun python a.py"), "NCCL_SOCKET_IFNAME=^lo,eth"),
        (("NCCL_SOCKET_IFNAME=ib0,hsn0 srun python a.py",), "NCCL_SOCKET_IFNAME=ib0,hsn0"),
        (("export NCCL_IB_HCA=mlx5_0:1", "srun python a.py"), "NCCL_IB_HCA=mlx5_0:1"),
        (("UCX_NET_DEVICES=mlx5_0:1 srun python a.py",), "UCX_NET_DEVICES=mlx5_0:1"),
        (("export FI_PROVIDER=efa", "srun python a.py"), "FI_PROVIDER=efa"),
        (("mpirun -x FI_PROVIDER='verbs;ofi_rxm' ./a",), "FI_PROVIDER='verbs;ofi_rxm'"),
        (("export UPCXX_NETWORK=ibv", "srun python a.py"), "UPCXX_NETWORK=ibv"),
        (("export UCX_TLS=rc,sm", "srun python a.py"), "UCX_TLS=rc,sm"),
        (("export I_MPI_FABRICS=shm:dapl", "srun python a.py"), "I_MPI_FABRICS=shm:dapl"),
        (("mpirun dask-mpi --interface em1 --nanny",), "--interface em1"),
        (("srun python a.py --ifname=ib0",), "--ifname=ib0"),
        (("mpirun --mca btl_tcp_if_include ib0 ./a",), "btl_tcp_if_include ib0"),
        (("mpirun -x NCCL_SOCKET_IFNAME=ib0 ./a",), "NCCL_SOCKET_IFNAME=ib0"),
        (("export https_proxy=proxy:3128", "srun python a.py"), "https_proxy=proxy:3128"),
        (("srun python a.py --visdom-host 172.26.15.44",), "172.26.15.44"),
        (("export TRACKING=http://10.1.2.3:5000", "srun python a.py"), "10.1.2.3"),
        (("pip install --no-index torch", "srun python a.py"), "--no-index"),
        (("export HTTP_PROXY=http://a:b@p:1", "srun python a.py"), "HTTP_PROXY=http://p:1"),
    ],
)
def test_a_name_of_the_old_network_is_said(rows: tuple[str, ...], path: str) -> None:
    """NCCL ends where there is no such interface, and a download where there is no such proxy."""
    (verdict,) = _named(_convert(_NODES, *rows))
    assert (verdict.path, verdict.line) == (path, 2 + len(rows[:-1]) + (len(rows) == 1))


@pytest.mark.parametrize(
    "row",
    [
        "export NCCL_SOCKET_IFNAME=eth0",
        "export NCCL_SOCKET_IFNAME=ib,eth",
        "export NCCL_SOCKET_IFNAME=^lo,docker0",
        "export NCCL_SOCKET_IFNAME=$(ip route show default | cut -d' ' -f5)",
        "export NCCL_IB_HCA=mlx5",
        "export UCX_NET_DEVICES=all",
        "export UCX_NET_DEVICES=eth0",
        "export NCCL_IB_HCA==eth0:1,lo",
        "export UCX_TLS=rc,tcp",
        "export I_MPI_FABRICS=shm:ofi",
        "export OMPI_MCA_btl=^openib",
        "./prepare --interface eth0",
        "./prepare --interface web",
        "export FI_PROVIDER=tcp",
        "export http_proxy=",
        "unset http_proxy",
        'echo "http_proxy=$http_proxy"',
        "# export NCCL_SOCKET_IFNAME=ib0",
        "export MASTER_ADDR=10.1.2.3",
        "srun torchrun --nnodes 2 --master_addr 10.1.2.3 a.py\nexit",
        "A=110.1.2.3",
        "pip install --no-index --find-links=wheels torch",
        "pip install --no-index -r requirements.txt -f w",
        "echo 10.1.2.3",
    ],
)
def test_what_pods_have_is_not_said(row: str) -> None:
    """An interface of theirs, those that are not taken, and no proxy."""
    step = () if "torchrun" in row else ("srun python a.py",)
    assert not _named(_convert(_NODES, row, *step))


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("jupyter-lab --no-browser --port=$PORT", "jupyter-lab"),
        ("srun jupyter notebook --ip $(hostname -i)", "jupyter"),
        ("tensorboard --logdir out &\npython a.py", "tensorboard"),
        ('singularity exec a.sif bash -c "\nsource a\njupyter lab --port $P\n"', "jupyter"),
        ("bash -c 'cd a && tensorboard --logdir out'", "tensorboard"),
        ("bash -c 'pip install jupyter lab'", ""),
        ("jupyter nbconvert --execute a.ipynb", ""),
        ("jupyter lab --generate-config", ""),
        ("jupyter notebook list", ""),
        ("code-server --extensions-dir=/a --install-extension b", ""),
        ("echo jupyter lab", ""),
    ],
)
def test_a_server_is_named_with_the_way_to_its_port(row: str, path: str) -> None:
    """The tunnel by ssh that such scripts print has nowhere to go."""
    verdicts = [own for own in _convert(row).verdicts if "port-forward" in own.why]
    assert [own.path for own in verdicts] == ([path] if path else [])


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("export I=ib0", "A=$(ifconfig $I | grep inet)", "python a.py $A"), True),
        (("A=$(ip -4 addr show hsn0 | grep inet)", "python a.py $A"), True),
        (("export DMLC_INTERFACE=ib0", "python a.py"), True),
        (("A=$(ip addr show eth0 | grep inet)", "python a.py $A"), False),
    ],
)
def test_a_question_for_an_interface_of_a_node_is_named(
    rows: tuple[str, ...], *, is_named: bool
) -> None:
    """A pod has eth0: the answer is empty, and words behind it move."""
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    verdicts = job.convert(text.encode(), "job.sbatch").verdicts
    assert any("a pod has the interface eth0" in own.why for own in verdicts) is is_named


@pytest.mark.parametrize(
    "rows",
    [
        ("srun bash -c 'export UCX_NET_DEVICES=mlx5_0:1; exec python a.py'",),
        (
            "srun bash -c 'case $SLURM_LOCALID in 0) N=mlx5_0;; *) N=mlx5_1;; esac",
            "export UCX_NET_DEVICES=$N:1",
            "exec python a.py'",
        ),
        (
            "if [ -e /a ]; then N=mlx5_0; else N=mlx5_1; fi",
            "export UCX_NET_DEVICES=$N:1",
            "srun python a.py",
        ),
        ("srun apptainer exec a.sif sh -c 'UCX_NET_DEVICES=mlx5_0:1 python a.py'",),
    ],
)
def test_an_adapter_in_the_text_of_a_shell_or_a_variable_is_named(rows: tuple[str, ...]) -> None:
    """As one in the script itself."""
    (verdict,) = _named(_convert(_NODES, *rows))
    assert verdict.path.startswith("UCX_NET_DEVICES=")


@pytest.mark.parametrize(
    ("lines", "is_noted"),
    [
        (["export NCCL_NET=GPUDirectTCPX_v7", "export NCCL_GPUDIRECTTCPX_CTRL_DEV=enp0"], True),
        (["export NCCL_FASTRAK_CTRL_DEV=eth0"], True),
        (["export NCCL_NET=Socket"], False),
        (["export NCCL_NET=IB"], False),
    ],
)
def test_a_plugin_of_nccls_is_on_nodes_that_have_it(lines: list[str], *, is_noted: bool) -> None:
    """One line says it of all of its variables."""
    conversion = _convert(_NODES, *lines, "srun python a.py")
    own = [verdict for verdict in conversion.verdicts if "plugin of NCCL's" in verdict.why]
    assert len(own) == is_noted
