"""What the post-renderer adds to Helm: ratios of one run, on both majors.

Each case is run in turn with every other one, so that a busy machine slows them all alike, and the
medians are compared. The floors beside ours say what any filter must cost: `cat`, and a Python
that copies its input. The goals are for a small job and for a stream of 1,000 pods' worth of
manifests, against plain Helm. Helm 4 reads and writes a post-rendered stream itself, which on a
long one costs more than the goal before any filter has begun: there the goal is taken against
`cat`. The same stream with every document changed is shown without a goal.
"""

from __future__ import annotations

import os
import shutil
import statistics
import subprocess
import sys
import sysconfig
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PROGRAM = Path(sysconfig.get_path("scripts")) / "allranks-postrender"
COPY = "import sys; sys.stdout.buffer.write(sys.stdin.buffer.read())"
JOB = (
    "template demo {root}/charts/torchrun -n lab --set image.repository=x/y,gpus=64,gpusPerNode=8"
    " --set command={{python,train.py}}"
)
INSTALL = JOB.replace("template", "install --dry-run=client", 1)
LARGE = JOB.replace("gpus=64", "gpus=8000", 1)
QUEUED = JOB + ",scheduling.dialect=volcano,queue=research,scheduling.topology.mode=required"
FOREIGN = "template demo {root}/tests/data/charts/foreign -n lab"
STREAM = "template demo {root}/tests/data/charts/foreign -n lab --set jobs=1000"
PLUGIN = """\
apiVersion: v1
type: postrenderer/v1
name: {name}
version: 1.0.0
runtime: subprocess
runtimeConfig:
  platformCommand:
    - command: {command}
"""


@dataclass(frozen=True, slots=True)
class Case:
    """One thing that is measured.

    Attributes:
        title: what it is.
        command: the helm command.
        options: the post-renderer's.
        goal: how many times plain Helm it may take; 0 is no goal.
        runs: how often it is run.
    """

    title: str
    command: str
    options: tuple[str, ...] = ()
    goal: float = 0.0
    runs: int = 21


CASES = (
    Case("8-node job, template", JOB, goal=2.0),
    Case("8-node job, install --dry-run=client", INSTALL, goal=2.0),
    Case("8-node job in a queue, template", QUEUED, goal=2.0),
    Case("1,000-node job, template", LARGE, goal=1.5),
    Case("a small foreign chart in a queue", FOREIGN, ("--dialect=kueue", "--queue=q"), goal=1.8),
    Case("1,000 foreign jobs, none changes", STREAM, goal=1.5, runs=7),
    Case("1,000 foreign jobs, all change", STREAM, ("--dialect=kueue", "--queue=research"), runs=7),
)


def renderers(major: int, folder: Path) -> dict[str, list[str]]:
    """The post-renderers compared: their names, and helm's arguments for each."""
    copy = folder / "copy"
    copy.write_text(f"#!{sys.executable} -I\n{COPY}\n")
    copy.chmod(0o755)
    programs = {"cat": "cat", "python copy": str(copy), "allranks": str(PROGRAM)}
    if major > 3:
        for name, command in list(programs.items())[:2]:
            plugin = name.replace(" ", "-")
            (folder / plugin).mkdir()
            text = PLUGIN.format(name=plugin, command=command)
            (folder / plugin / "plugin.yaml").write_text(text)
            programs[name] = plugin
        ours = folder / "allranks-postrender"
        shutil.copytree(ROOT / "plugins" / "helm4" / "allranks-postrender", ours)
        (ours / "python").write_text(f"{sys.executable}\n")
        programs["allranks"] = ours.name
    return {
        "plain": [],
        **{name: ["--post-renderer", program] for name, program in programs.items()},
    }


def seconds(command: list[str], env: dict[str, str]) -> float:
    """How long a command takes; it must succeed."""
    start = time.perf_counter()
    process = subprocess.run(
        command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=env, check=False
    )
    elapsed = time.perf_counter() - start
    if process.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{process.stderr.decode()}")
    return elapsed


def measure(case: Case, major: int, helm: Path) -> dict[str, float]:
    """The median of each post-renderer, run in turn."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        env = {**os.environ, "HELM_PLUGINS": name}
        ways = renderers(major, folder)
        times: dict[str, list[float]] = {way: [] for way in ways}
        command = [str(helm), *case.command.format(root=ROOT).split()]
        options = [text for option in case.options for text in ("--post-renderer-args", option)]
        for run in range(case.runs + 1):
            for way, arguments in ways.items():
                own = options if way == "allranks" else []
                elapsed = seconds([*command, *arguments, *own], env)
                # The first round warms the caches.
                if run:
                    times[way].append(elapsed)
    return {way: statistics.median(values) for way, values in times.items()}


def main() -> int:
    """Print the table; 1 where a goal is missed."""
    print(f"{'median, ms':48}{'plain':>8}{'cat':>8}{'copy':>8}{'ours':>8}  /plain  /cat  goal")
    missed = 0
    for major in (4, 3):
        (helm,) = (ROOT / ".tools" / "helm").glob(f"v{major}.*/helm")
        for case in CASES:
            if major == 3 and "install" in case.command:
                # Helm 3 asks a cluster even for a dry run on the client.
                continue
            medians = measure(case, major, helm)
            to_plain, to_cat = (medians["allranks"] / medians[way] for way in ("plain", "cat"))
            floor = medians["cat"] / medians["plain"]
            against, ratio = ("cat", to_cat) if floor > case.goal else ("plain", to_plain)
            over = bool(case.goal) and ratio > case.goal
            missed += over
            figures = "".join(f"{median * 1000:8.1f}" for median in medians.values())
            verdict = "OVER" if over else "ok"
            goal = f"{case.goal:.1f} {verdict} (against {against})" if case.goal else "-"
            print(f"helm {major}: {case.title:40}{figures}{to_plain:8.2f}{to_cat:6.2f}  {goal}")
    return int(missed > 0)


if __name__ == "__main__":
    sys.exit(main())
