"""Folders that a container has of the nodes, and containers that no pod starts."""

from __future__ import annotations

import pytest

from allranks.convert.slurm import job


def test_all_of_the_nodes_tmp_is_the_pods_own() -> None:
    """What others, or an earlier job, have left there is not in a pod."""
    for mounts, is_noted in (("/tmp:/tmp", True), ("/tmp:/tmp,/d:/d", True), ("/tmp/x", False)):
        text = (
            "#!/bin/bash\n#SBATCH --gpus-per-node=2\n"
            f"srun --container-image=a/b:1 --container-mounts={mounts} python a.py\n"
        )
        verdicts = job.convert(text.encode(), "a.sh").verdicts
        (own,) = [item for item in verdicts if item.path.endswith("--container-mounts")]
        assert ("/tmp, which begins empty" in own.why) == is_noted


def test_the_folder_that_is_sent_is_mounted_by_its_path_too() -> None:
    """``$(realpath .)`` is it, as ``$(pwd)`` is."""
    for folder in ("$(realpath .)", "$(pwd -P)", "$(readlink -f .)"):
        text = (
            f"#!/bin/bash\n#SBATCH --gpus-per-node=2\nwd={folder}\n"
            'apptainer exec --nv -B "$wd:/workdir" docker://a/b:1 python /workdir/a.py\n'
        )
        values = job.convert(text.encode(), "a.sh").values
        assert "/workdir" == values["workspace"]["mountPath"]


@pytest.mark.parametrize("wrapper", ["./wrap", "./bind.py", "./wrap.sh"])
def test_a_container_behind_a_wrapper_of_the_scripts_own_is_a_loss(wrapper: str) -> None:
    """A pod starts none, whatever the wrapper is called."""
    text = (
        "#!/bin/bash\n#SBATCH -n 2 --gpus-per-node=2\n"
        f"srun {wrapper} apptainer exec --nv docker://a/b:1 python a.py\n"
    )
    conversion = job.convert(text.encode(), "a.sh")
    assert ["a pod starts no containers"] == [own.why[:26] for own in conversion.lost]
    assert not any("names none: this one" in own.why for own in conversion.verdicts)


def test_an_option_of_a_container_that_has_a_value_takes_its_word() -> None:
    """Apptainer's ``--no-mount home`` was read as the image `home`."""
    text = (
        "#!/bin/bash\n#SBATCH -n 2 --gpus-per-node=2\n"
        "srun apptainer exec --nv --no-mount home --fusemount x:/y docker://a/b:1 python a.py\n"
    )
    conversion = job.convert(text.encode(), "a.sh")
    assert ("a/b", ["python", "a.py"]) == (
        conversion.values["image"]["repository"],
        conversion.values["command"],
    )
    assert not [own for own in conversion.verdicts if own.path.startswith("home")]


@pytest.mark.parametrize(
    ("step", "stays"),
    [("srun apptainer exec docker://a/b:1 python a.py", False), ("srun python a.py", True)],
)
def test_an_environment_of_the_node_ends_at_the_container(step: str, *, stays: bool) -> None:
    """A pod is the container, whose own python counts."""
    text = f"#!/bin/bash\n#SBATCH -N 2\nconda activate host\n{step}\n"
    conversion = job.convert(text.encode(), "a.sh")
    assert stays == ("conda activate" in conversion.values.get("setup", ""))
    whys = {verdict.path: verdict.why for verdict in conversion.verdicts}
    assert stays or "the container's border" in whys["conda activate host"]
