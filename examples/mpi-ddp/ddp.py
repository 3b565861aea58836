"""Train the digits of examples/torchrun-digits with ranks that mpirun has started.

DistributedDataParallel asks for RANK, WORLD_SIZE, LOCAL_RANK, MASTER_ADDR and MASTER_PORT, which
torchrun sets and mpirun does not. What mpirun sets instead depends on whose it is; `discover` reads
it, as Horovod does, and the training itself is that of torchrun-digits, unchanged. The ranks talk
through gloo or nccl: MPI only starts them.
"""

from __future__ import annotations

import argparse
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

# In an image the two folders lie beside each other as they do here.
sys.path.append(str(Path(__file__).resolve().parent.parent / "torchrun-digits"))

import train

if TYPE_CHECKING:
    from collections.abc import Mapping

# Rank, world size and rank on the host, as Open MPI says them, and as MPICH and Intel MPI do.
FAMILIES = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK"),
    ("PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID"),
)


def discover(env: Mapping[str, str], port: int) -> dict[str, str]:
    """What DistributedDataParallel asks for, from what mpirun has set.

    Args:
        env: the environment of a rank.
        port: a free port on the first host.

    Raises:
        SystemExit: no MPI that is known here has started this process.
    """
    for rank, size, local_rank in FAMILIES:
        if rank in env:
            return {
                "RANK": env[rank],
                "WORLD_SIZE": env[size],
                "LOCAL_RANK": env[local_rank],
                "MASTER_ADDR": first_host(Path(env["ALLRANKS_MPI_HOSTFILE"]).read_text()),
                "MASTER_PORT": str(port),
            }
    variables = ", ".join(rank for rank, _, _ in FAMILIES)
    raise SystemExit(f"not started by mpirun: none of {variables} is set")


def first_host(hostfile: str) -> str:
    """The host of rank 0: `host slots=2` or `host:2` in the host file's first line."""
    return re.split(r"[\s:]", hostfile, maxsplit=1)[0]


def main(argv: list[str] | None = None) -> int:
    """Discover this rank, and train; the options are those of torchrun-digits and one more."""
    parser = argparse.ArgumentParser(add_help=False)
    parser.add_argument("--master-port", type=int, default=29400)
    own, rest = parser.parse_known_args(argv)
    os.environ.update(discover(os.environ, own.master_port))
    return train.main(rest)


if __name__ == "__main__":
    code = main()
    sys.stdout.flush()
    # As in torchrun-digits: all is saved and said, and a rank must not fail in torch's teardown.
    os._exit(code)
