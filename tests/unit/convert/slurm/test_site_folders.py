"""Folders of the old cluster: a pod has none of them, and the report names each once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from allranks.convert.slurm import job
from allranks.convert.verdicts import Outcome

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion, Verdict

_NODES = "#SBATCH -N 2 --ntasks-per-node=1 --gpus-per-node=8"
_PLACE = "where its image or a volume does"
_IN_A_VOLUME = "goes with its pods"


def _convert(*rows: str) -> Conversion:
    return job.convert("\n".join(("#!/bin/bash", *rows, "")).encode(), "job.sbatch")


def _folders(conversion: Conversion) -> list[Verdict]:
    sentences = (_PLACE, "home folder")
    return [
        verdict
        for verdict in conversion.verdicts
        if any(sentence in verdict.why for sentence in sentences)
    ]


@pytest.mark.parametrize(
    ("row", "path"),
    [
        ("srun python a.py --data /fsx/me/data", "/fsx/me/data"),
        ("srun python a.py --data=/fsx/me/data", "/fsx/me/data"),
        ("srun python /fsx/me/a.py --out /fsx/me/out", "/fsx/me"),
        ('srun python a.py --out "/scratch/$USER/$SLURM_JOB_ID"', "/scratch/$USER/$SLURM_JOB_ID"),
        ("srun /usr/stud/me/env/bin/python a.py", "/usr/stud/me/env/bin/python"),
        ("cp /fsx/in/lr\\=0.1/b .\nsrun python a.py", "/fsx/in/lr\\=0.1/b"),
        ("srun python a.py --out ~/out", "~/out"),
        ('srun python a.py --out "$HOME/out"', "$HOME/out"),
        ("export HF_HOME=/fsx/hf\nsrun python a.py", "/fsx/hf"),
        (
            "export LD_LIBRARY_PATH=/apps/nccl/lib:$LD_LIBRARY_PATH\nsrun python a.py",
            "/apps/nccl/lib",
        ),
        ("mkdir -p /scratch/out\nsrun python a.py", "/scratch/out"),
        ("cp -r data /lscratch\nsrun python a.py", "/lscratch"),
        ('srun bash -c "python a.py --data \\"/fsx/in\\" b"', "/fsx/in"),
        ("cp /fsx/in/* .\nsrun python a.py", "/fsx/in"),
        ("cat /fsx/in/part-*.txt > a.txt\nsrun python a.py", "/fsx/in"),
        ("cp /fsx/in/{a,b} .\nsrun python a.py", "/fsx/in"),
        ("tar xf /fsx/in/*.tar\nsrun python a.py", "/fsx/in"),
        ('D="${D:-/fsx/in}"\nsrun python a.py $D', "/fsx/in"),
        ("srun python a.py ${D:=/fsx/${USER}/in}", "/fsx/${USER}/in"),
        ("OUT=/fsx/$USER/$(pwd | cut -d'/' -f5-)/a\nsrun python a.py $OUT", "/fsx/$USER"),
        ("srun python ml/a.py --mode cut --data /fsx/in", "/fsx/in"),
        ("sed -i 's/a/b/' /fsx/a.yaml\nsrun python a.py", "/fsx/a.yaml"),
        ("rsync -a /fsx/in/ .\nsrun python a.py", "/fsx/in"),
        ("curl https://a.org/b -o /fsx/b\nsrun python a.py", "/fsx/b"),
        ("srun python a.py --conf /root/a.yaml", "/root/a.yaml"),
        ("LR=$(cat /etc/lab/lr.txt)\nsrun python a.py --lr $LR", "/etc/lab/lr.txt"),
        ("srun python a.py --conf /etc/lab.conf", "/etc/lab.conf"),
    ],
)
def test_a_folder_is_named_with_its_line(row: str, path: str) -> None:
    """In options, variables and lists of folders, and of a home folder, too."""
    conversion = _convert(_NODES, row)
    line = next(n for n, text in enumerate(row.split("\n"), 3) if path in text)
    assert [(path, line)] == [(verdict.path, verdict.line) for verdict in _folders(conversion)]


@pytest.mark.parametrize(
    "row",
    [
        "srun /usr/bin/python3 a.py --out /tmp/x --shm /dev/shm --conf /etc/hosts",
        "srun python a.py --url https://example.org/fsx/a --s3 s3://bucket/fsx --out out/run",
        "sed -i 's/fsx/lustre/' a.yaml\nsrun python a.py",
        "awk '/fsx/ {print}' a.log\nsrun python a.py",
        "# srun python /fsx/a.py\nsrun python a.py",
        "if grep -q '/fsx' a; then sed -i 's#a#/fsx/b#' a; fi\nsrun python a.py",
        "rsync -a me@host:/fsx/in .\nsrun python a.py",
        "awk '{ print; }\n /fsx/ { print }' a.log\nsrun python a.py",
        "srun python a.py --cache ~/.cache/hf",
        "source /fsx/venv/bin/activate\nsrun python a.py",
        "module use /apps/modules\nsrun python a.py",
        "cd $SLURM_SUBMIT_DIR\nsrun python a.py",
        'OUT=out\nls -1 "${OUT}"/checkpoints/a.pt "$OUT"/logs\nsrun python a.py',
        'echo "write --data /path/to/data"\nsrun python a.py',
    ],
)
def test_what_is_no_such_folder_is_not_named(row: str) -> None:
    """Folders of each image, addresses, patterns, comments, and what the report names already."""
    assert not _folders(_convert(_NODES, row))


def test_folders_under_one_are_named_together() -> None:
    """A report has one line for each file system, with the folder that its paths share."""
    rows = ("D=/fsx/me/data", "srun python a.py --data $D --out /fsx/me/out --log /scratch/log")
    paths = [verdict.path for verdict in _folders(_convert(_NODES, *rows))]
    assert sorted(["/fsx/me", "/scratch/log"]) == sorted(paths)


def test_a_home_folder_is_named_once_however_it_is_spelled() -> None:
    """`~` and HOME are one folder."""
    rows = ('A="${HOME}/a"', "srun python a.py --in $HOME/b --out ~/c $A")
    assert ["$HOME"] == [verdict.path for verdict in _folders(_convert(_NODES, *rows))]


def test_a_line_that_was_cut_off_is_no_word_of_another_folder() -> None:
    """The report shows the beginning of a long line, which may end within a path."""
    rows = (
        "source /fsx-storage-1/users/me/miniconda3/bin/activate /fsx-storage-1/users/me/envs/torch",
        "srun python a.py --out /fsx-storage-1/users/me/out",
    )
    paths = [verdict.path for verdict in _folders(_convert(_NODES, *rows))]
    assert ["/fsx-storage-1/users/me/out"] == paths
    step = f"singularity exec a.sif python a.py {'--verbose ' * 5}--data /fsx/data"
    assert ["/fsx/data"] == [verdict.path for verdict in _folders(_convert(_NODES, step))]


@pytest.mark.parametrize("other", ["/opt/sets/coco", "$(pwd)/coco", "`pwd`/coco"])
def test_a_folder_has_its_own_line(other: str) -> None:
    """And not that of another path which ends with it."""
    rows = (f"ls {other}", "srun python a.py --data /coco")
    (verdict,) = _folders(_convert(_NODES, *rows))
    assert ("/coco", 4) == (verdict.path, verdict.line)


def test_the_folder_that_a_run_starts_in_is_named_alone() -> None:
    """Other folders beside it are mounted, where that one is the code that is sent."""
    rows = ("cd /fsx/me/code", "srun python a.py --out /fsx/me/out")
    named = {verdict.path: verdict.to for verdict in _folders(_convert(_NODES, *rows))}
    assert {"/fsx/me/code": "workingDir", "/fsx/me/out": ""} == named
    rows = ("cd /fsx/code", "srun python /fsx/code/a.py --conf /fsx/code/b.yaml")
    named = {verdict.path: verdict.to for verdict in _folders(_convert(_NODES, *rows))}
    assert {"/fsx/code": "workingDir", "/fsx/code/a.py": ""} == named


def test_a_mounted_folder_is_there() -> None:
    """What Pyxis or --bind mounts is a volume of the pods."""
    mounts = "--container-mounts=/fsx:/fsx --container-image=a/b:1"
    conversion = _convert(_NODES, f"srun {mounts} python a.py --data /fsx/me")
    assert not _folders(conversion)
    assert not any(_IN_A_VOLUME in note for note in conversion.notes)


@pytest.mark.parametrize(
    "rows",
    [
        ("#SBATCH --image=docker:a/b:1", "srun shifter python a.py --data /fsx/in"),
        ("#SBATCH --image=docker:a/b:1", "D='/fsx/in'", 'RUN="shifter python a.py $D"', "$RUN"),
        ("srun shifter --image=a/b:1 -V /data:/d python a.py --data /fsx/in --more /d/a",),
    ],
)
def test_a_shifter_has_the_folders_of_the_site(rows: tuple[str, ...]) -> None:
    """It mounts them by itself, and a pod has not what the program reads there."""
    assert ["/fsx/in"] == [verdict.path for verdict in _folders(_convert(_NODES, *rows))]


@pytest.mark.parametrize(
    "program",
    ["--container-image=a/b:1", "shifter run a/b:1", "singularity exec docker://a/b:1"],
)
def test_another_container_has_not_the_folders_of_the_site(program: str) -> None:
    """What it was not told to mount is in its image."""
    conversion = _convert(_NODES, f"srun {program} python a.py --data /fsx/in")
    assert not _folders(conversion)


def test_paths_in_a_container_are_those_of_its_image() -> None:
    """What the nodes ran beside it had their folders."""
    step = "srun --container-image=a/b:1 python /app/a.py"
    assert not _folders(_convert(_NODES, step))
    folders = _folders(_convert(_NODES, "mkdir -p /fsx/out", step))
    assert ["/fsx/out"] == [verdict.path for verdict in folders]


@pytest.mark.parametrize(
    "rows", [("#SBATCH -D /fsx/code", "srun python a.py"), ("cd /fsx/code", "srun python a.py")]
)
def test_the_folder_that_a_run_starts_in_is_said(rows: tuple[str, ...]) -> None:
    """The code is in the folder that is sent, and not in one of the old cluster."""
    conversion = _convert(_NODES, *rows)
    assert "/fsx/code" == conversion.values["workingDir"]
    (verdict,) = _folders(conversion)
    assert ("/fsx/code", Outcome.CHANGED, "workingDir", 3) == (
        verdict.path,
        verdict.outcome,
        verdict.to,
        verdict.line,
    )
    assert "folder of your code" in verdict.why


def test_that_pods_keep_no_files_is_noted() -> None:
    """A shared file system keeps what a job writes; a run without a volume keeps nothing."""
    conversion = _convert(_NODES, "srun python a.py --out runs")
    assert any(_IN_A_VOLUME in note for note in conversion.notes)


def test_an_operator_of_a_condition_is_no_home_folder() -> None:
    """`=~` compares with a pattern."""
    assert not _folders(_convert("#SBATCH -n 1", "[[ $A =~ b ]] && echo c", "python a.py"))


@pytest.mark.parametrize(
    ("row", "folder"),
    [
        ("python a.py --in /gpfs/a/b.tsv\\\n  --x 1", "/gpfs/a/b.tsv"),
        ("mkdir -p /fsx/home-$(whoami)/hosts; python a.py", "/fsx/home-$(whoami)/hosts"),
        ("D=/project/p1/me; srun singularity exec /project/p1/me/a.sif ls $D", "/project/p1/me"),
    ],
)
def test_a_folder_is_named_whatever_stands_behind_it(row: str, folder: str) -> None:
    """A line that goes on, the name of who runs it, and an image below that folder."""
    named = [verdict.path for verdict in _folders(_convert("#SBATCH -n 1", row))]
    assert folder in named


@pytest.mark.parametrize(
    ("row", "is_named"),
    [
        ('echo "begins"\nls /fsx/a', True),
        ("echo\n\nls /fsx/a", True),
        ("echo a \\\n  /fsx/a", False),
        ("cat <<EOF\nusage: -t /fsx/me\nEOF", False),
        ("usage() { cat << EOF\nusage: -t /fsx/me\nEOF\n}\nusage", False),
        ("cat << 'EOF' >&2\nusage: -t /fsx/me\nEOF\nls /fsx/b", True),
        ("cat <<EOF > a.yaml\ndata: /fsx/me\nEOF", True),
        ("cat <<EOF\nlines: `wc -l /fsx/me`\nEOF", True),
        ('cat <<EOF\n-t /fsx/me\n[$(dirname "$0")/a]\nEOF', False),
        ('echo "results are in /fsx/out"', False),
        ('echo "no /fsx/in" >&2', False),
        ('[ -f a ] || { echo "no /fsx/in" 1>&2; exit 1; }', False),
        ("printf 'no /fsx/in' > /dev/stderr", False),
        ("echo /fsx/in >&3", True),
        ('A="${A:?set A=/fsx/to/a.h5 -- any of ~/b}"', False),
        (": ${A?see /fsx/a} ${B:?(or \n/fsx/b: '${C}')}", False),
        ('A="${A:-/fsx/a}"', True),
        ('A="${A:?set it}/fsx" B=/fsx/b', True),
        ('echo """usage: $0 /fsx/me\n  or /fsx/you\n"""', False),
        ("printf '%s\\n' /fsx/a", False),
        ('echo "out: /fsx/out" > /fsx/log', True),
        ("echo /fsx/a >> list", True),
        ("echo a | tee /fsx/log", True),
        ('echo "$(wc -l /fsx/a)"', True),
        ("echo a; ls /fsx/b", True),
        ('echo "starts"\n\ntime /fsx/bin/b', True),
        ("echo a \\\n  /fsx/b", False),
    ],
)
def test_a_folder_that_is_only_printed_is_not_read(row: str, is_named: bool) -> None:
    """What is written to a file may be read there."""
    assert bool(_folders(_convert("#SBATCH -n 1", row, "python a.py"))) == is_named


def test_the_line_of_a_folder_is_that_which_reads_it() -> None:
    """And none whose error names it."""
    rows = ("#SBATCH -n 1", ": ${A:?set A=/fsx/a}", "python a.py --data /fsx/a")
    assert [4] == [verdict.line for verdict in _folders(_convert(*rows))]


def test_the_end_of_a_path_is_no_folder() -> None:
    """`$DIR"/a.txt"` and `$DIR'/a'$N` are below DIR; two slashes are one."""
    rows = ("DIR=`pwd`/c", "A=$DIR\"/a.txt\"; B=${DIR}'/b'$A", "cd //fsx/me", "python a.py $B")
    named = [verdict.path for verdict in _folders(_convert("#SBATCH -n 1", *rows))]
    assert named == ["//fsx/me"]


@pytest.mark.parametrize(
    ("row", "folders"),
    [
        (
            "docker run --rm -v /fsx/in:/data -v $PWD:/code a/b:1 python /code/a.py /data",
            ["/fsx/in"],
        ),
        ("podman run --volume=/fsx/in:/data \\\n a/b:1 bash -c 'ls /data; ls /code'", ["/fsx/in"]),
        ("docker run --mount type=bind,src=/fsx/in,dst=/data a/b:1 /code/run", ["/fsx/in"]),
        ("docker exec box python /code/a.py && ls /fsx/out", ["/fsx/out"]),
    ],
)
def test_folders_in_a_container_that_no_pod_starts_are_not_named(
    row: str, folders: list[str]
) -> None:
    """Those that it mounts are of the nodes: the program needs them in the pod, too."""
    named = _folders(_convert("#SBATCH -n 1", row))
    assert [verdict.path for verdict in named] == folders


@pytest.mark.parametrize(
    ("rows", "is_named"),
    [
        (("DATA=/fsx/in", "python a.py"), False),
        (("DATA=/fsx/in", "python a.py $DATA"), True),
        (("DATA=/fsx/in", "IN=${DATA}/b", "ls $IN"), True),
        (("export DATA=/fsx/in", "python a.py"), True),
        (("DATA=/fsx/in", "export DATA", "python a.py"), True),
        (("DATA=/fsx/in", "source env.sh", "python a.py"), True),
        (("DATA=/fsx/in python a.py",), True),
    ],
)
def test_a_folder_in_a_variable_that_nobody_reads_is_not_named(
    rows: tuple[str, ...], is_named: bool
) -> None:
    """It is of the shell alone, so that no program reads it either."""
    assert bool(_folders(_convert("#SBATCH -n 1", *rows))) == is_named


@pytest.mark.parametrize(
    ("rows", "lines"),
    [
        (("srun $(ws_find conda)/bin/python a.py",), [3]),
        (("W=`ws_allocate -F fast data 30`", "cd $W", "python a.py"), [3]),
        (("python a.py", "ws_release data"), [4]),
        (("echo $(ws_find conda)", "python ws_find.py"), []),
    ],
)
def test_a_workspace_of_the_old_cluster_is_named(rows: tuple[str, ...], lines: list[int]) -> None:
    """No pod has the programs that find it, so that the path would begin at the root."""
    lost = _convert("#SBATCH -n 1", *rows).lost
    assert [verdict.line for verdict in lost if "workspace" in verdict.why] == lines


def test_an_scp_on_the_node_itself_is_a_copy() -> None:
    """It needs no host and no key, but the program, and its folders are named as those of cp."""
    conversion = _convert("#SBATCH -n 1", "scp -r ~/data /fsx/me/out", "python a.py")
    assert [verdict.path for verdict in _folders(conversion)] == ["~/data", "/fsx/me/out"]
    [own] = [verdict for verdict in conversion.verdicts if verdict.path == "scp"]
    assert (own.outcome, own.line, "write cp" in own.why) == (Outcome.CHANGED, 3, True)
    other = _folders(_convert("#SBATCH -n 1", "scp me@host:/fsx/in /fsx/out", "python a.py"))
    assert [verdict.path for verdict in other] == ["/fsx/out"]


@pytest.mark.parametrize(
    ("step", "is_noted"),
    [
        ("singularity exec -B /data:/data a.sif python a.py", True),
        ("apptainer run --nv --bind /data:/data:ro a.sif python a.py", True),
        ("singularity exec -B /data:/data --pwd /data/me a.sif python a.py", False),
        ("srun --container-image=a/b:1 --container-mounts=/data:/data python a.py", False),
        ("srun --container-image=a/b:1 --container-mounts=$PWD:$PWD,/data:/data ./a.py", True),
        ("srun --container-image=a/b:1 --container-mounts=$PWD:/in,/data:/data ./a.py", True),
    ],
)
def test_a_mount_keeps_no_other_folder(step: str, *, is_noted: bool) -> None:
    """Singularity mounts the working folder by itself, and what is written there stayed."""
    notes = [note for note in _convert(_NODES, step).notes if _IN_A_VOLUME in note]
    assert is_noted == bool(notes)
    assert all("/data" in note for note in notes)


@pytest.mark.parametrize("mounts", ["$PWD:$PWD,/data:/data", "/data:/data,$SLURM_SUBMIT_DIR:/in"])
def test_the_folder_of_the_job_is_no_folder_of_a_node(mounts: str) -> None:
    """A mount of it among others is the folder that is sent; alone it is no volume at all."""
    step = "srun --container-image=a/b:1 --container-mounts={} python a.py"
    whys = [
        verdict.why
        for verdict in _convert(_NODES, step.format(mounts)).verdicts
        if verdict.path.endswith("--container-mounts")
    ]
    assert ["is written there goes with the pod" in why for why in whys] == [True]
    notes = _convert(_NODES, step.format("$PWD:/in")).notes
    assert any("what the run writes goes with its pods" in note for note in notes)


def test_what_is_added_to_a_path_is_no_folder() -> None:
    """What `+=` adds to a variable stands behind what that has already."""
    rows = ("OUT=$1", "OUT+='/run'", "LIST+=:/fsx/list", "srun python a.py --out $OUT $LIST")
    assert ["/fsx/list"] == [verdict.path for verdict in _folders(_convert(_NODES, *rows))]


def test_a_file_with_an_equals_sign_in_its_name_lies_in_a_folder() -> None:
    """`epoch=84-step=138040.ckpt` is how Lightning calls a checkpoint."""
    text = "#!/bin/bash\npython a.py --from /home/me/logs/epoch=84-step=1.ckpt\n"
    paths = [own.path for own in job.convert(text.encode(), "job").verdicts]
    assert any(path.startswith("/home/me") for path in paths)


@pytest.mark.parametrize(
    ("row", "folder"),
    [
        ('cd "/data/me/my code"', "/data/me/my code"),
        ("cd '/data/me/my code/of mine'", "/data/me/my code/of mine"),
        ('python a.py "/data/me one two"', "/data/me"),
        ('cd "/data/me" "b c"', "/data/me"),
    ],
)
def test_a_folder_with_a_blank_in_its_name(row: str, folder: str) -> None:
    """The word of a `cd` is one path, and that of a program may be several."""
    text = f"#!/bin/bash\n#SBATCH -n 1\n{row}\npython b.py\n"
    paths = [own.path for own in job.convert(text.encode(), "job").verdicts]
    assert folder in paths


@pytest.mark.parametrize("rows", [("HOME=/home/me",), ("export HOME=/home/me",)])
def test_a_home_folder_that_the_script_sets_is_that_one(rows: tuple[str, ...]) -> None:
    """The folder itself is named, and not that of who submits."""
    text = "\n".join(("#!/bin/bash", *rows, "python $HOME/a/b.py ${HOME}/c", ""))
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    assert not [verdict for verdict in verdicts if "home folder" in verdict.why]
    assert [verdict for verdict in verdicts if verdict.path == "/home/me"]


@pytest.mark.parametrize(
    "program", ["cut -d ':' -f2-", 'sed "s/ //"', 'grep -o "a b"', "tr -d ' '"]
)
def test_a_filter_ends_with_its_substitution(program: str) -> None:
    """What follows `"$(… | cut -d ":" -f2-)"` is none of its words."""
    line = f'A="$(conda info | grep "x" | {program})"'
    text = f'#!/bin/bash\n{line}\ncd /data/me/code\nB="c d"\npython a.py\n'
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    assert [verdict for verdict in verdicts if verdict.path.startswith("/data/me")]


def test_homes_of_a_site_are_told_apart() -> None:
    """A word on /home, which each image has, names none of them."""
    text = "#!/bin/bash\ncd /home/a/me/code\npython a.py /home/b/me/x /home/b/me/y\n"
    paths = {verdict.path for verdict in job.convert(text.encode(), "a.sbatch").verdicts}
    assert {"/home/a/me/code", "/home/b/me"} <= paths


def test_nobody_can_mount_the_folder_of_a_job() -> None:
    """A site makes it before the script begins."""
    text = "#!/bin/bash\nmkdir /scratch/${SLURM_JOB_ID}/a\npython a.py\n"
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [why] = [own.why for own in verdicts if own.path.startswith("/scratch")]
    assert "have the script make it" in why


def test_a_folder_of_the_job_that_the_script_makes_is_one_of_a_volume() -> None:
    """A pod's user may not make it in the root of its image."""
    rows = ('D="/jobs/${SLURM_JOB_ID}"', 'L="${D}/log"', 'mkdir -p "${L}"', "python a.py $L")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, ""))
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [why] = [own.why for own in verdicts if own.path.startswith("/jobs")]
    assert "the script makes the folder" in why
    rows = ("cd /jobs", "mkdir -p $SLURM_JOB_ID", "cd $SLURM_JOB_ID", "python a.py", "ls {}")
    text = "\n".join(("#!/bin/bash", "#SBATCH -n 1", *rows, "")).format("/jobs/$SLURM_JOB_ID/a")
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    assert not any("nothing makes the folder" in own.why for own in verdicts)


def test_an_alias_of_a_script_is_heeded_by_nobody() -> None:
    """A shell that is not asked expands none, and what it names is not run."""
    for row, is_named in (("", False), ("shopt -s expand_aliases", True)):
        rows = ("#!/bin/bash", "#SBATCH -n 1", row, "alias python=~/venv/bin/python", "python a.py")
        verdicts = job.convert("\n".join((*rows, "")).encode(), "a.sbatch").verdicts
        assert any(own.path.startswith("~/venv") for own in verdicts) is is_named


def test_a_path_behind_a_variable_in_quotes_begins_none() -> None:
    """``sed … > "$D"/new/o`` writes below D, whatever the command's other words are."""
    for program in ("sed s/a//g x", "tr a b", "cut -c1"):
        text = f'#!/bin/bash\n#SBATCH -n 1\nD=data\npython a.py\n{program} > "$D"/new/o.fr\n'
        paths = [own.path for own in job.convert(text.encode(), "a.sbatch").verdicts]
        assert "/new/o.fr" not in paths


@pytest.mark.parametrize(
    "path", ["/path/to/data", "/path/to/your/env", "/add/your/path", "/home/your_name/a"]
)
def test_a_path_that_is_a_blank_is_no_folder_of_the_cluster(path: str) -> None:
    """A person is to fill it in, and no volume has it."""
    text = f"#!/bin/bash\n#SBATCH -n 1\npython a.py --data {path}\n"
    verdicts = job.convert(text.encode(), "a.sbatch").verdicts
    [why] = [own.why for own in verdicts if own.path.startswith(path)]
    assert why.startswith("where it is a blank for a person, fill it in")


def test_a_folder_of_the_node_that_is_mounted_elsewhere_is_named_where_a_line_reads_it() -> None:
    """Outside of the container it is no folder of the pod's."""
    step = "srun --container-image=a/b:1 --container-mounts=$M python a.py"
    text = f"#!/bin/bash\n#SBATCH -n 1\nM=/home/me/raw:/data\nls /home/me/raw/a\n{step}\n"
    paths = [own.path for own in job.convert(text.encode(), "a.sbatch").verdicts]
    assert any(path.startswith("/home/me/raw") for path in paths)
    alone = text.replace("ls /home/me/raw/a\n", "")
    paths = [own.path for own in job.convert(alone.encode(), "a.sbatch").verdicts]
    assert not any(path.startswith("/home/me/raw") for path in paths)


def test_a_text_that_is_printed_within_another_ends_with_it() -> None:
    """Its closing quote began none: the lines behind it were taken for printed ones."""
    rows = ('echo "GPU: $(nvidia-smi -L || echo none)"', "", "P=/n/me/bin/python", '$P a.py "x"')
    paths = [own.path for own in _folders(_convert("#SBATCH -n 1", *rows))]
    assert paths == ["/n/me/bin/python"]


@pytest.mark.parametrize(
    ("row", "paths"),
    [
        ("python a.py '$HOME' --x='${HOME}/b'", []),
        ("srun python a.py '$HOME/b' \"$USER\"", []),
        ("python a.py '$HOME' \"$HOME/b\"", ["$HOME/b"]),
        ("python a.py \"it's '$HOME/b'\"", ["$HOME/b"]),
        ("bash -c '$HOME/b'", ["$HOME/b"]),
        ("eval '$HOME/b'", ["$HOME/b"]),
        ("trap '$HOME/b' EXIT; python a.py", ["$HOME/b"]),
    ],
)
def test_a_home_in_single_quotes_is_a_text(row: str, paths: list[str]) -> None:
    """No shell puts a folder there, but one that reads the text again."""
    assert paths == [verdict.path for verdict in _folders(_convert("#SBATCH -n 1", row))]


def test_files_of_the_nodes_system_that_are_copied_are_the_images_here() -> None:
    """A pod has those of its image at these paths, or none."""
    text = "#!/bin/bash\n#SBATCH -N 2\ncp /usr/lib64/libx.so* lib/\nsrun python a.py\n"
    verdicts = job.convert(text.encode(), "a.sh").verdicts
    whys = {verdict.path: verdict.why for verdict in verdicts}
    assert whys["/usr/lib64/libx.so*"].startswith("a pod has its image's files there")
    assert not [path for path in whys if path.startswith("/usr/lib64/") and "*" not in path]
