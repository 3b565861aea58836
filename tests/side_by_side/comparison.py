"""A batch script and its pods, run and compared until nothing is missing in the sandbox."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from allranks.convert.slurm import job
from allranks.errors import AllranksError
from allranks.helm.releases import ReleaseRef
from allranks.service import convert, prepare, render
from allranks.sweep.model import Trial
from allranks.sweep.spec import prepare as sweep_prepare
from allranks.sweep.spec.prepare import SweepFlags
from tests.side_by_side import filesystem, missing, pods, sandbox, slurm_job
from tests.side_by_side.differences import Difference, Runs, differences
from tests.side_by_side.explanations import explains
from tests.side_by_side.sandbox import SandboxError

if TYPE_CHECKING:
    from pathlib import Path

    from allranks.convert.verdicts import Conversion
    from allranks.helm.binary import HelmBinary
    from allranks.k8s.manifest import Manifest

_PODS_MAX = 16  # more take minutes, and do nothing that these do not
_TURNS = 6  # until nothing is missing: a script that wants more makes up names
_WORD = re.compile(r"[A-Za-z_][\w.+-]{0,59}")
_BUILTIN = """\
    if then else elif fi for while until do done case esac in function select time export unset set
    source eval exec cd pushd popd declare local readonly typeset alias unalias trap wait jobs kill
    read mapfile readarray let shift return exit break continue true false test echo printf type
    command builtin hash ulimit umask getopts shopt enable times fg bg disown bind caller compgen
    dirs logout suspend history fc help"""
_TRAINERS = ("python", "python3", "accelerate", "Rscript", "julia")
_ARGUMENT = re.compile(r"\$\{?([1-9])\b")
_AWK = re.compile(r"awk[^\n']*'[^']*'")


@dataclass(frozen=True, slots=True)
class Comparison:
    """What became of a script.

    Attributes:
        script: its file.
        refusal: why it is not converted, or did not end; "" where it was compared.
        silent: differences of which the report has no word.
        explained: how many others there are.
        programs: how many programs ran with Slurm, and in pods.
    """

    script: str
    refusal: str = ""
    silent: tuple[Difference, ...] = ()
    explained: int = 0
    programs: tuple[int, int] = (0, 0)


def compare(path: Path, helm: HelmBinary) -> Comparison:
    """Convert a batch script, and run it beside its pods."""
    text = path.read_text(encoding="utf-8", errors="replace").replace("\r", "")
    try:
        conversion = job.convert(path.read_bytes(), path.name, args=arguments(text))
    except AllranksError as error:
        return Comparison(str(path), f"refused: {error}")
    try:
        return replace(compare_with(path.name, text, conversion, helm), script=str(path))
    except AllranksError as error:
        return Comparison(str(path), f"its values are refused: {error}")
    except SandboxError as error:
        return Comparison(str(path), str(error))


def compare_with(name: str, text: str, conversion: Conversion, helm: HelmBinary) -> Comparison:
    """Run a batch script beside the pods of its conversion.

    Args:
        name: the script's file.
        text: the script.
        conversion: its values and its report.
        helm: the helm that renders.

    Raises:
        AllranksError: the values are not those of a run.
        SandboxError: a sandbox did not end by itself.
    """
    in_pods = pods.side(_manifests(conversion, helm))
    if len(in_pods.commands) > _PODS_MAX:
        return Comparison(name, f"it is too large to be run here: {len(in_pods.commands)} pods")
    slurm = slurm_job.side(name, text, arguments(text), in_pods)
    words = {match[0] for match in _WORD.finditer(text)} - {*_BUILTIN.split()}
    site = filesystem.Site({*words, "python", "python3", "pip", "git", "module", "conda"})
    site.folders |= {command.folder for side in (slurm, in_pods) for command in side.commands}
    whole = [sandbox.run(side, site) for side in (slurm, in_pods)]
    for _ in range(_TURNS):
        folders = {record.folder for run in whole for record in run.records} | site.folders
        is_new = [missing.add(site, run.errors, sorted(folders)[:12]) for run in whole]
        if not any(is_new) or any(None in run.exit_codes for run in whole):
            break
        whole = [sandbox.run(side, site) for side in (slurm, in_pods)]
    if None in whole[0].exit_codes:
        return Comparison(name, "it does not end by itself")
    # What is a rank on either side fails on both.
    failing = {*_TRAINERS, *(name for run in whole for name in run.rank_names)}
    of_slurm, of_pods = (
        Runs(run, sandbox.run(side, site, sorted(failing)))
        for run, side in zip(whole, (slurm, in_pods), strict=True)
    )
    hosts = dict.fromkeys((*in_pods.hosts, *slurm.hosts))
    result = differences(text, of_slurm, of_pods, hosts)
    silent = tuple(item for item in result if not explains(conversion, text, item))
    counts = (len(whole[0].records), len(whole[1].records))
    return Comparison(name, "", silent, len(result) - len(silent), counts)


def arguments(text: str) -> list[str]:
    """As many words behind a script's name as it reads of its own."""
    code = "\n".join(line for line in text.split("\n") if not line.lstrip().startswith("#"))
    numbers = [int(match[1]) for match in _ARGUMENT.finditer(_AWK.sub("", code))]
    count = max(numbers, default=1 if re.search(r"\$\{?[@*]", code) else 0)
    return [f"word{number}" for number in range(1, count + 1)]


def _manifests(conversion: Conversion, helm: HelmBinary) -> tuple[Manifest, ...]:
    """The objects of a conversion; of a sweep, those of its first trial."""
    release = ReleaseRef(helm, conversion.name, "default")
    sources = convert.as_sources(conversion)
    if conversion.values["workload"] != sweep_prepare.SWEEP:
        return render.for_cluster(prepare.prepare(sources, release=release.name), release).objects
    prepared = sweep_prepare.prepare(SweepFlags(release.name, sources, helm=str(helm.path)))
    trial = Trial(0, release.name, next(sweep_prepare.samples(prepared.spec)))
    return render.of_values(prepared.values(trial), prepared.workload, release).objects
