"""Containers that a script starts with the words of docker: image and folders are the pod's."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TASKS = "#SBATCH -N 2 --ntasks-per-node=4"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


@pytest.mark.parametrize(
    "program",
    [
        "sarus run --mpi --mount type=bind,source=/data,destination=/d",
        "sarus --debug run -t --workdir /w --mount=type=bind,src=/data,dst=/d,readonly",
        "podman run --rm --mount type=bind,source=/data,target=/d,ro",
        "docker run --gpus all -v /data:/d:ro",
        "nvidia-docker run --init -v /data:/d:ro",
        "shifter run --mpi --mount=type=bind,source=/data,destination=/d",
        "podman-hpc run --rm --gpu --mpi -v /data:/d",
        "nerdctl run --rm -v /data:/d",
    ],
)
def test_a_container_of_dockers_words_is_the_pods(program: str) -> None:
    """A pod has no such program; its image and its folders are the pod's own."""
    values = _convert(_TASKS, f"srun {program} nvcr.io/nvidia/pytorch:23.09-py3 python a.py").values
    assert values["command"] == ["python", "a.py"]
    assert values["image"] == {"repository": "nvcr.io/nvidia/pytorch", "tag": "23.09-py3"}
    pod = values["podTemplate"]["spec"]
    assert [volume["hostPath"]["path"] for volume in pod["volumes"]] == ["/data"]
    assert [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"]] == ["/d"]
    is_read_only = program.endswith(("ro", "readonly"))
    assert pod["containers"][0]["volumeMounts"][0].get("readOnly", False) == is_read_only


def test_mounts_beside_one_that_is_lost_are_said_to_be_of_the_node() -> None:
    """Their volumes are of kind hostPath, which the line on the other one did not say."""
    step = "srun --container-image=a/b:1 --container-mounts=$HOME/a:/w,/data:/data python a.py"
    why = next(v.why for v in _convert("#SBATCH -n 1", step).lost if "mounts" in v.path)
    assert "; the others: a folder of the node is a volume of kind hostPath" in why


@pytest.mark.parametrize("row", ["shifter python b.py", "if [ $A ]; then shifter python b.py; fi"])
def test_a_shifter_before_the_step_is_the_pod(row: str) -> None:
    """Its image is that of the job, and a pod has no shifter."""
    conversion = _convert(
        "#SBATCH -N 2 --image=docker:a/b:1", "A=1", row, "srun shifter python a.py"
    )
    assert row.replace("shifter ", "") in conversion.values["setup"]
    assert conversion.values["image"] == {"repository": "a/b", "tag": "1"}


def test_mounts_of_other_kinds_are_not_carried() -> None:
    """A volume of a daemon's has no folder of the node."""
    program = "docker run --mount type=tmpfs,target=/t a.io/b:1 python a.py"
    conversion = _convert("#SBATCH -n 1", f"srun {program}")
    assert [verdict.path for verdict in conversion.lost if "mount" in verdict.path] != []


@pytest.mark.parametrize("program", ["sarus run -w $PWD", "singularity exec --pwd $(pwd)"])
def test_a_container_that_starts_where_the_job_does_starts_where_the_run_does(program: str) -> None:
    """The folder that is sent is where a run starts."""
    conversion = _convert(_TASKS, f"srun {program} docker://a.io/b:1 python a.py")
    assert "workingDir" not in {verdict.to for verdict in conversion.lost}


def test_a_folder_that_the_script_makes_is_not_the_one_that_is_sent() -> None:
    """`.` is that folder behind a `cd` into it, and a container had it mounted."""
    step = "singularity exec --bind .:/in,$SLURM_SUBMIT_DIR:/code a.sif python /code/a.py"
    rows = ("D=/scratch/$SLURM_JOB_ID", "mkdir -p $D", "cd $D", step)
    conversion = _convert("#SBATCH -n 1", *rows)
    assert conversion.values["workspace"] == {"mountPath": "/code"}
    (verdict,) = (own for own in conversion.verdicts if own.path == "--bind .:/in")
    assert (verdict.line, verdict.outcome) == (6, Outcome.NOT_CARRIED)
    in_place = _convert("#SBATCH -n 1", *rows[:2], step.replace(",$SLURM_SUBMIT_DIR:/code", ""))
    assert in_place.values["workspace"] == {"mountPath": "/in"}
    own = _convert("#SBATCH -n 1", *rows[:-1], "singularity exec -B $PWD,/d a.sif python a.py")
    assert not any("it has made" in verdict.why for verdict in own.verdicts)


@pytest.mark.parametrize(
    "rows",
    [
        ('ROOT="${SLURM_SUBMIT_DIR:-$(pwd)}"',),
        ("ROOT=$(pwd)",),
        ('cd "$SLURM_SUBMIT_DIR"', "BASE=${SLURM_SUBMIT_DIR}", "ROOT=$BASE"),
        ("if [ $A ]; then", "ROOT=$PWD", "else", "ROOT=$SLURM_SUBMIT_DIR/", "fi"),
    ],
)
def test_a_variable_that_is_the_sent_folder_is_mounted_as_it_is(rows: tuple[str, ...]) -> None:
    """The mount was said to be known on the old cluster alone."""
    step = "srun --container-image=a/b:1 --container-mounts={} --container-workdir=/w python a.py"
    bind = "singularity exec --bind {} docker://a/b:1 python a.py"
    for line in (step, bind):
        conversion = _convert("#SBATCH -n 1", "A=1", *rows, line.format("${ROOT}:/w,/data"))
        assert conversion.values["workspace"] == {"mountPath": "/w"}
        assert not [own for own in conversion.lost if "s" in own.path]
        (volume,) = conversion.values["podTemplate"]["spec"]["volumes"]
        assert "/data" == volume["hostPath"]["path"]


@pytest.mark.parametrize(
    "rows",
    [
        ("cd /data", "ROOT=$PWD"),
        ("ROOT=$PWD/code",),
        ("ROOT=$PWD", "if [ $A ]; then ROOT=$B; fi"),
        ("ROOT=${B:-$PWD}",),
    ],
)
def test_a_variable_that_may_be_another_folder_is_not_mounted(rows: tuple[str, ...]) -> None:
    """A `cd` came before it, it is a folder below, or some line sets it to another."""
    step = "srun --container-image=a/b:1 --container-mounts=$ROOT:/w python a.py"
    conversion = _convert("#SBATCH -n 1", "A=1", *rows, step)
    assert "workspace" not in conversion.values
    assert any("$ROOT:/w is known" in own.why for own in conversion.lost)


def test_mounts_of_an_array_with_commas_between_them_are_read() -> None:
    """Each part of it is a mount; what a condition adds is not known, and is said."""
    rows = (
        "ROOT=$PWD",
        'MOUNTS=("${ROOT}:/w" "/data:/d")',
        'LIST="$(IFS=,; echo "${MOUNTS[*]}")"',
        'srun --container-image=a/b:1 --container-mounts="$LIST" python a.py',
    )
    more = "if [ -d /a ]; then MOUNTS+=(/a:/a); fi"
    for own, losses in ((rows, 0), ((*rows[:2], more, *rows[2:]), 1)):
        conversion = _convert("#SBATCH -n 1", *own)
        assert conversion.values["workspace"] == {"mountPath": "/w"}
        (volume,) = conversion.values["podTemplate"]["spec"]["volumes"]
        assert "/data" == volume["hostPath"]["path"]
        assert losses == sum("${MOUNTS[*]} is known" in own.why for own in conversion.lost)


@pytest.mark.parametrize(
    "row",
    ["if [ $A ]; then MOUNTS=(/a:/a); fi", "MOUNTS=($A)", "MOUNTS[0]=/a:/a", "read -a MOUNTS"],
)
def test_mounts_of_an_array_that_may_be_another_are_not_read(row: str) -> None:
    """What it is, the script alone knows."""
    rows = (
        "MOUNTS=($PWD:/w)",
        row,
        'srun --container-image=a/b:1 --container-mounts=$(IFS=,; echo "${MOUNTS[*]}") ./a.out',
    )
    conversion = _convert("#SBATCH -n 1", *rows)
    assert "workspace" not in conversion.values
    assert conversion.lost


@pytest.mark.parametrize("bind", [".:/etc", "/scratch/etc:/etc/", "/dev", "$PWD:/usr"])
def test_a_mount_over_a_folder_of_the_system_is_named(bind: str) -> None:
    """A pod needs its own there, and a run with such a mount is refused."""
    step = f"singularity exec --bind {bind},/data:/in docker://a/b:1 python a.py"
    conversion = _convert("#SBATCH -n 1", step)
    (verdict,) = conversion.lost
    assert f"{bind} would hide" in verdict.why
    assert "workspace" not in conversion.values
    (mount,) = conversion.values["podTemplate"]["spec"]["containers"][0]["volumeMounts"]
    assert mount["mountPath"] == "/in"


def test_each_line_that_starts_a_container_is_named() -> None:
    """One may only show something, and another compute what the ranks are told."""
    rows = (
        'echo "$(singularity_wrapper exec which a)"',
        "SIZE=$(singularity_wrapper exec python size.py)",
        "ROWS=$(",
        "    apptainer exec a.sif wc -l b",
        ")",
        "srun python a.py $SIZE $ROWS",
    )
    lost = _convert(_TASKS, *rows).lost
    assert [own.line for own in lost if "starts no containers" in own.why] == [4, 6]


def test_each_line_that_calls_srun_is_named() -> None:
    """A pod has none of them, and what they give is read."""
    rows = ("A=$(srun -n1 cat a)", "B=$(srun -n1 cat b)", "python a.py $A $B")
    lost = _convert("#SBATCH -n1", *rows).lost
    assert [own.line for own in lost if "has no srun" in own.why] == [3, 4]


@pytest.mark.parametrize("row", ["shifter run $IMAGE python b.py", "shifter pull a/b:1"])
def test_what_a_shifter_does_besides_is_named(row: str) -> None:
    """No pod has one; `run` and `pull` are words of its own, and no programs."""
    conversion = _convert("#SBATCH -n 1", "IMAGE=$(cat image)", row, "python a.py")
    assert row in conversion.values["script"]
    assert [own.line for own in conversion.lost if "starts no containers" in own.why] == [4]


@pytest.mark.parametrize("step", ["", "srun "])
def test_a_variable_before_an_option_of_a_container_is_no_image(step: str) -> None:
    """Behind the image stands the program: what an option follows holds options, too."""
    overlay = 'if [ -f a ]; then overlay="--overlay a"; else overlay="--overlay b"; fi'
    row = f"{step}singularity exec ${{overlay}} -B /data:/d $where ./prepare a.txt"
    conversion = _convert("#SBATCH -n1", overlay, row)
    assert "./prepare a.txt" in conversion.values["script"].splitlines()
    lost = {verdict.path: verdict for verdict in conversion.lost}
    assert "options of the container" in lost["${overlay}"].why
    assert "image" == lost["$where"].to


def test_an_option_of_the_images_own_program_stands_behind_the_image() -> None:
    """With `run` the words behind the image are that program's."""
    conversion = _convert("#SBATCH -n1", "singularity run $where -v a.txt")
    assert "-v a.txt" in conversion.values["script"]


@pytest.mark.parametrize("program", ["shifter --image a/b:1", "singularity exec"])
def test_a_value_for_a_container_keeps_its_commas(program: str) -> None:
    """What stands behind a comma is another variable where it has a name and a value."""
    image = "docker://a/b:1 " if "exec" in program else ""
    row = f"srun {program} --env GPUS=0,1,2 --env A=x,y,B=z {image}python a.py"
    assert {"GPUS": "0,1,2", "A": "x,y", "B": "z"} == _convert(_TASKS, row).values["env"]


@pytest.mark.parametrize(
    "row",
    [
        'if [ ! -f "$SIF" ]; then\n  echo "no image" >&2\n  exit 1\nfi',
        '[[ -e ${SIF} ]] || { echo "no image"; exit 1; }',
        "test -s /a/b.sqsh || exit 2",
    ],
)
@pytest.mark.parametrize("step", ["srun singularity exec $SIF ./a", "singularity exec $SIF ./a"])
def test_a_look_for_the_file_of_an_image_does_not_end_the_pod(row: str, step: str) -> None:
    """The pod is the container and has no such file: each run ended there."""
    rows = ("#!/bin/bash", "#SBATCH --gpus=1", 'SIF="${SIF:-/a/x.sif}"', row, step)
    text = "".join(f"{line}\n" for line in rows)
    conversion = job.convert(text.encode(), "job.sbatch")
    runs = f"{conversion.values.get('setup')}{conversion.values.get('script')}"
    assert "exit" not in runs
    reasons = [own.why for own in conversion.verdicts if own.line == 4]
    assert [True] == ["looks for the file of an image" in reason for reason in reasons]


def test_a_look_for_another_file_stays() -> None:
    """Its data may be there, and an image may be pulled."""
    rows = ("[ -f data.csv ] || exit 1", "[ -f a.sif ] || singularity pull a.sif docker://a/b")
    text = "\n".join(("#!/bin/bash", "#SBATCH --gpus=1", *rows, "singularity exec a.sif ./a", ""))
    script = job.convert(text.encode(), "job.sbatch").values["script"]
    assert "data.csv" in script
    assert "singularity pull" in script


@pytest.mark.parametrize("program", ["bsc_singularity", "site-apptainer", "/opt/x/bsc_singularity"])
def test_a_sites_own_name_of_singularity_is_a_container(program: str) -> None:
    """It stood in the command, where no pod has it, and was said to start torchrun."""
    step = f"srun {program} exec --nv docker://a/b:1 bash -c 'torchrun --nproc_per_node 4 a.py'"
    text = f"#!/bin/bash\n#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4\n{step}\n"
    values = job.convert(text.encode(), "job.sbatch").values
    assert ["python3", "-u", "a.py"] == values["command"]
    assert {"repository": "a/b", "tag": "1"} == values["image"]


@pytest.mark.parametrize(
    ("rows", "is_lost"),
    [
        (("SINGULARITY_OVERLAY=$2",), False),
        (("SINGULARITY_OVERLAY=/a.img  # the overlay",), False),
        (("export SINGULARITY_OVERLAY=/a.img",), True),
        (("SINGULARITY_OVERLAY=/a.img", "export SINGULARITY_OVERLAY"), True),
        (("SINGULARITY_OVERLAY=/a.img singularity exec b.sif ./a",), True),
    ],
)
def test_a_variable_of_the_scripts_own_is_none_of_singularitys(
    rows: tuple[str, ...], *, is_lost: bool
) -> None:
    """That nothing in a pod reads it was said of one that Singularity never got."""
    rows = ("#!/bin/bash", "#SBATCH -n 1", *rows, "singularity exec $SIF ./a")
    conversion = job.convert("".join(f"{row}\n" for row in rows).encode(), "job.sbatch")
    lost = [own.path for own in conversion.lost if own.path == "SINGULARITY_OVERLAY"]
    assert (["SINGULARITY_OVERLAY"] if is_lost else []) == lost


@pytest.mark.parametrize(
    ("image", "mounts"),
    [
        ("a/b:1", '"$(pwd):/w,/data:/d"'),
        ('${IMAGE:-"a/b:1"}', '${MOUNTS:-"$(pwd):/w,/data:/d"}'),
        ('"${IMAGE:-a/b:1}"', "${MOUNTS:-$PWD:/w,/data:/d}"),
    ],
)
def test_options_of_pyxis_in_variables_with_defaults_are_carried(image: str, mounts: str) -> None:
    """They were said to be known on the old cluster alone, and stand in the script."""
    rows = (f"IMAGE={image}", f"MOUNTS={mounts}", 'O="--container-mounts=$MOUNTS"')
    for options in ('--container-mounts="$MOUNTS"', "$O"):
        values = _convert(
            _TASKS, *rows, f"srun --container-image=$IMAGE {options} python a.py"
        ).values
        assert {"repository": "a/b", "tag": "1"} == values["image"]
        assert {"mountPath": "/w"} == values["workspace"]
        assert [{"name": "host-0", "hostPath": {"path": "/data"}}] == values["podTemplate"]["spec"][
            "volumes"
        ]


def test_a_mount_that_a_branch_sets_is_not_known() -> None:
    """Where the branch is not taken there is none."""
    rows = ("if [ -d /data ]; then MOUNTS=$PWD:/w; fi", "srun --container-mounts=$MOUNTS ./a")
    assert ["$MOUNTS is known on the old cluster alone: give a claim in storage"] == [
        own.why for own in _convert(_TASKS, *rows).lost if own.path == "--container-mounts"
    ]


def test_a_look_for_the_image_that_a_word_names_is_left_out() -> None:
    """Each pod ended there where the words were given, and has the container around it."""
    rows = (
        'SIF_IMAGE="$1"',
        'DATA_IMG="$2"',
        '[ -f "$SIF_IMAGE" ] || exit 1',
        '[ -f "$DATA_IMG" ] || exit 1',
        'singularity exec --nv "$SIF_IMAGE" ./a.out',
    )
    text = "\n".join(("#!/bin/bash", "#SBATCH --gpus=1", *rows, ""))
    script = job.convert(text.encode(), "job.sbatch", args=["a.sif", "b"]).values["script"]
    assert '-f "$SIF_IMAGE"' not in script
    assert '-f "$DATA_IMG"' in script


def test_a_folder_of_the_scripts_own_below_tmp_is_the_pods() -> None:
    """It was said to be known on the old cluster alone, and each pod has a /tmp."""
    rows = ("#SBATCH -n 1", "T=/tmp/x-$SLURM_JOB_ID", "mkdir -p $T")
    own = _convert(*rows, 'apptainer exec --bind "$T:$T" docker://a/b ./a.out')
    assert ("carried", "the pod's own /tmp") == next(
        (str(verdict.outcome), verdict.why)
        for verdict in own.verdicts
        if verdict.path == "the container's mounts"
    )
    assert "podTemplate" not in own.values


@pytest.mark.parametrize(
    "step",
    [
        'apptainer exec --bind "$T:/scratch" docker://a/b ./a.out',
        "apptainer exec -B /tmp/x-$SLURM_JOB_ID:/scratch,/data docker://a/b ./a.out",
        "srun --container-image=a/b --container-mounts=$T:/scratch ./a.out",
    ],
)
def test_a_folder_below_tmp_at_another_place_is_at_its_own(step: str) -> None:
    """No claim has what the script puts there, and the pod has it without one."""
    rows = ("#SBATCH -n 1", "T=/tmp/x-$SLURM_JOB_ID", "mkdir -p $T")
    (verdict,) = _convert(*rows, step).lost
    assert verdict.why.startswith("/tmp/x-$SLURM_JOB_ID:/scratch: it is in the pod's own /tmp")
    assert "claim" not in verdict.why.partition("; the others")[0]


def test_a_step_beside_others_starts_in_a_folder_of_its_own() -> None:
    """A pod starts in one: the step whose folder it is not is named, and the others stay."""
    check = "srun --container-workdir=/results python -m check"
    conversion = _convert("#SBATCH -n1", "srun ./train.sh", check)
    assert "workingDir" not in conversion.values
    assert [(v.line, "cd /results" in v.why) for v in conversion.lost] == [(4, True)]
    assert _convert("#SBATCH -n1", "mkdir -p a", check).values["workingDir"] == "/results"


def test_options_of_srun_in_an_array_are_said_once() -> None:
    """They are read with the step: the array itself loses nothing."""
    array = "ARGS=(--container-image a/b:1 --container-mounts /data)"
    conversion = _convert("#SBATCH -n1", array, 'srun -l "${ARGS[@]}" python a.py')
    assert conversion.values["image"] == {"repository": "a/b", "tag": "1"}
    assert not conversion.lost
    decided = _convert("#SBATCH -n1", f"if [ -f x ]; then {array}; fi", 'srun "${ARGS[@]}" ./a')
    assert [verdict.path for verdict in decided.lost] == ["srun $ARGS"]


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ("singularity overlay create --size 1024 /tmp/x.ext3", "makes no image file"),
        ("apptainer overlay create /tmp/x.ext3 && ls", "makes no image file"),
        ("S=/opt/bin/singularity; $S overlay create /tmp/x.ext3", "makes no image file"),
        ("apptainer cache clean -f", "no program for them"),
        ("singularity build x.sif x.def", "makes no image file"),
    ],
)
def test_a_singularity_that_starts_nothing_is_named(row: str, why: str) -> None:
    """No pod has the program, so that a script with `set -e` ends there."""
    rows = ("set -e", row, "singularity exec --overlay /tmp/x.ext3 docker://a/b:1 python a.py")
    text = "\n".join(["#!/bin/bash", "#SBATCH --gpus=1", *rows, ""])
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    assert [own.path for own in verdicts if why in own.why] == ["singularity"]


def test_the_files_of_two_images_are_two_runs() -> None:
    """A pod has one image, which was said of those of a registry alone."""
    rows = ("apptainer exec a.sif python a.py", "apptainer exec {} python b.py")
    for name, is_other in (("b.sif", True), ("a.sif", False)):
        conversion = _convert("#SBATCH -n 1", *(row.format(name) for row in rows))
        assert is_other is any("make two runs" in verdict.why for verdict in conversion.lost)


def test_what_is_mounted_of_a_files_content_or_of_slurm_is_no_folder_of_the_node() -> None:
    """A pod mounts no squashfs, and has no use for Slurm's programs and settings."""
    row = "singularity exec -B {} docker://a/b:1 python a.py"
    lost = _convert("#SBATCH -n 1", row.format("/tmp/d.sqfs:/data:image-src=/")).lost
    assert any("unpack it into a volume" in own.why for own in lost)
    for path in ("/usr/bin/scontrol", "/etc/slurm", "/usr/lib64/libmunge.so.2"):
        conversion = _convert("#SBATCH -n 1", row.format(path))
        assert not conversion.lost
        assert "podTemplate" not in conversion.values
        assert any(f"nor {path}" in own.why for own in conversion.verdicts)


@pytest.mark.parametrize("step", ["srun --container-env=A,B{} python a.py", "srun python a.py"])
def test_a_container_has_the_variables_of_who_submits_by_name(step: str) -> None:
    """Pyxis takes them from the environment, which is the script's and that of who submits."""
    options = (_TASKS, "#SBATCH --container-image=a/b:1 --container-env=A,B=1,SLURM_JOB_ID,HOME")
    lost = _convert(*options, "export B=2", step.format("")).lost
    assert all("write A into env" in verdict.why for verdict in lost)
    assert lost
    assert not _convert(*options, "A=1", "export B=2", step.format(",B")).lost


@pytest.mark.parametrize(
    ("option", "count"),
    [
        ('--container-mounts="$D:/d,$E:/e"', 1),
        ("--container-mounts=/data:/data", 1),
        ("--container-env=TOKEN", 1),
        ("--container-readonly", 0),
        ("--container-image=$IMAGE", 1),
        ("--container-workdir=$D", 1),
    ],
)
def test_an_option_of_the_container_is_said_of_its_first_step_alone(
    option: str, count: int
) -> None:
    """Of a further one it was said by its rule, also where the first one's was not carried."""
    name = option.partition("=")[0]
    conversion = _convert("#SBATCH -n 1", f"srun {option} ./a.out", f"srun {option} ./b.out")
    assert [2] * count == [
        own.line - 1 for own in conversion.verdicts if name in own.path and own.why
    ]


def test_users_of_a_node_do_not_hide_those_of_the_image() -> None:
    """A file of its /etc is not mounted over the image's, and a folder besides is."""
    step = "srun singularity exec -B /etc/passwd,/data x.sif python a.py"
    conversion = job.convert(f"#!/bin/bash\n#SBATCH -N 1 --gpus=1\n{step}\n".encode(), "a.sbatch")
    assert any("/etc/passwd would hide" in verdict.why for verdict in conversion.lost)
    assert "/etc/passwd" not in str(conversion.values.get("podTemplate"))
    assert "/data" in str(conversion.values["podTemplate"])


def test_a_label_has_no_variable_of_a_directive() -> None:
    """Sbatch fills in none."""
    text = "#!/bin/bash\n#SBATCH --account=${PROJECT:-x}\npython a.py\n"
    conversion = job.convert(text.encode(), "a.sbatch")
    assert "labels" not in conversion.values
    assert any("fills in no variables" in verdict.why for verdict in conversion.lost)


def test_a_variable_of_one_container_of_several_is_said_to_be_the_pods() -> None:
    """A pod is all of them: what one of them alone had, the others have as well."""
    run = "singularity exec --nv {} docker://a/b:1 python {}.py"
    rows = (run.format("--env A=1", "a"), run.format("--env B=1 --env C=1", "b"))
    rows += (run.format("--env C=1", "c"),)
    conversion = _convert("#SBATCH --gpus=1", *rows)
    assert conversion.values["env"] == {"A": "1", "B": "1", "C": "1"}
    shared = [own.path for own in conversion.verdicts if "a pod has it for both" in own.why]
    assert sorted(shared) == ["--env A", "--env B", "--env C"]
    alike = _convert("#SBATCH --gpus=1", run.format("--env A=1", "a"), run.format("--env A=1", "b"))
    assert not any("a pod has it for both" in own.why for own in alike.verdicts)


@pytest.mark.parametrize("name", ["TMPDIR", "SLURM_TMPDIR"])
def test_a_folder_of_the_jobs_own_disk_is_the_pods(name: str) -> None:
    """A site makes one for each job; setup fills the pod's, and no claim has what is in it."""
    step = "singularity exec --bind ${%s}/src:/code --bind $%s a.sif python /code/a.py"
    rows = ("#SBATCH --gpus=1", f"cp -r a ${name}/src", step.replace("%s", name))
    [why] = [own.why for own in _convert(*rows).verdicts if "/src:/code" in own.why]
    assert (
        why == f"${{{name}}}/src:/code: it is in the pod's own /tmp: let the program use it there"
    )
    own = _convert(rows[0], f"export {name}=$SCRATCH/a", *rows[1:]).verdicts
    assert any("known on the old cluster alone" in verdict.why for verdict in own)


def test_an_environment_file_is_no_image() -> None:
    """It names one, with its mounts."""
    for step in ("srun --container-image=/u/a.toml python a.py", "srun --environment=/u/a.toml ls"):
        [why] = [own.why for own in _convert(_TASKS, step).lost if own.line == 3]
        assert why.startswith("its file names an image and mounts")


def test_a_shell_of_the_image_is_that_of_the_container() -> None:
    """A node's `sh` is bash, and what stands behind --container-image never ran there."""
    for option, is_named in (("", True), ("--container-image=a/b:1", False)):
        verdicts = _convert("#SBATCH -n 1", f"srun {option} sh train.sh").verdicts
        assert any("sh is bash on most clusters" in own.why for own in verdicts) is is_named


def test_a_variable_that_a_container_is_given_as_it_is_is_the_scripts() -> None:
    """``--env A=$A``: the pod is the container, and its shell exports it."""
    step = 'apptainer exec --env A="$A" docker://a/b:1 python a.py'
    assert not _convert("#SBATCH --gpus=1", "export A=$PWD/a", step).lost
    assert _convert("#SBATCH --gpus=1", step).lost


@pytest.mark.parametrize(("target", "is_of_root"), [("/root/.cache/hf", True), ("/rootfs", False)])
def test_a_folder_that_is_mounted_in_the_home_of_root_is_named(
    target: str, *, is_of_root: bool
) -> None:
    """The pods' user is another, which may not look into it, and has its home elsewhere."""
    text = f"#!/bin/bash\n#SBATCH -n 1 --container-mounts=/data:{target}\nsrun python a.py\n"
    whys = [own.why for own in job.convert(text.encode(), "job.sbatch").verdicts]
    assert any("root alone" in why for why in whys) is is_of_root


@pytest.mark.parametrize(
    "others", ["/lustre/data:/data", "$PWD:/work", "/lustre/a:/a,/etc/hosts:/etc/hosts", ""]
)
def test_folders_of_slurms_among_the_mounts_are_said_to_be_left_out(others: str) -> None:
    """They went without a word where other folders were beside them."""
    mounts = f"/var/spool/slurm/me:/me,/run/munge:/run/munge,{others}".strip(",")
    rows = ("#!/bin/bash", "#SBATCH -n 2", f"srun --container-mounts={mounts} python a.py", "")
    conversion = job.convert("\n".join(rows).encode(), "train.sbatch")
    (verdict,) = (own for own in conversion.verdicts if own.path == "--container-mounts")
    assert "a pod has no Slurm, nor /var/spool/slurm/me, /run/munge" in verdict.why


@pytest.mark.parametrize(
    ("mounts", "flag", "is_read_only"),
    [
        ("/a:/b:rox", "rox", False),
        ("/a:/b:ro+rox", "rox", True),
        ("/a:/b:ro,/c:/d:Ro", "Ro", True),
        ("/a:/b:ro+rprivate+x-create=dir", "", True),
        ("/a:/b:rw", "", False),
    ],
)
def test_a_flag_that_no_mount_has_is_named(mounts: str, flag: str, is_read_only: bool) -> None:
    """A folder with a misspelt one was mounted so that all may write to it, in silence."""
    option = f"--container-mounts={mounts}"
    conversion = _convert(_TASKS, f"srun --container-image=a/b:1 {option} ./a.out")
    reasons = [own.why for own in conversion.lost if own.path == "--container-mounts"]
    assert [flag] * bool(flag) == [why.split(": ")[1].split(" is no flag")[0] for why in reasons]
    (container,) = conversion.values["podTemplate"]["spec"]["containers"]
    assert is_read_only == container["volumeMounts"][0].get("readOnly", False)


@pytest.mark.parametrize(
    "step",
    [
        "srun bash -c 'singularity exec --nv -B /data:/d img.sif {}'",
        'RUN="singularity exec --nv -B /data:/d img.sif {}"\nsrun bash -c "$RUN"',
        "srun sh -c 'exec apptainer exec -B /data:/d docker://a.io/b:1 {}'",
    ],
)
def test_a_container_in_the_text_of_a_steps_shell_is_the_pod(step: str) -> None:
    """The launcher in it starts the ranks of its node, as without the container."""
    program = "accelerate launch --num_machines 2 a.py"
    options = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4"
    conversion = _convert(options, step.format(program))
    command = conversion.values["command"]
    assert command[-1].split("\n")[-1] == f"exec {program}"
    assert "unset PET_" in command[-1]
    (volume,) = conversion.values["podTemplate"]["spec"]["volumes"]
    assert volume["hostPath"]["path"] == "/data"
    assert not any("starts no containers" in own.why for own in conversion.verdicts)
    assert not any("leave procsPerNode out" in own.why for own in conversion.verdicts)


def test_containers_among_other_commands_of_a_shell_are_not_carried() -> None:
    """A pod's shell would start the second of them in the pod."""
    step = "srun bash -c 'module load a; singularity exec a.sif python a.py | tee a.log'"
    conversion = _convert("#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=4", step)
    assert [own.path for own in conversion.lost if "no containers" in own.why] == ["singularity"]
