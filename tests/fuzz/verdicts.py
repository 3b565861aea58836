"""What validate, render and Helm say of a values file, and whether they agree.

Helm is asked twice: by itself, with the values as they are, and through `render`.
"""

from __future__ import annotations

import contextlib
import io
import os
import subprocess
import tempfile
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import resources
from allranks.cli.main import main
from allranks.errors import InputError
from allranks.schema.validate import find_problems
from allranks.values import check
from allranks.values.sources import Sources, load_sources
from allranks.yamlio.dump import dump

if TYPE_CHECKING:
    from tests.fuzz.mutations import Case

# Rules that only the command line has: the chart has no equal, and Helm renders all the same.
# (tests/data/values/bad has a file of each, marked as one that Helm renders.)
OURS_ALONE = frozenset(
    {
        "clean-text",
        "dns",
        "first-word",
        "gpu-type",
        "host-port",
        "limits",
        "module",
        "mount-paths",
        "node-shape",
        "own-labels",
        "own-units",
        "pod-template",
        "rdma",
        "restricted",
        "scheduler",
        "shared-storage",
        "storage-used",
        "tolerations",
        "units",
    }
)
# What the command line resolves or overwrites, so that Helm alone sees other values.
_OURS = ("preset", "layout", "global", "allranks-library")


@dataclass(frozen=True, slots=True)
class Verdict:
    """The verdicts on one file.

    Attributes:
        validate: the exit code of `validate`.
        render: that of `render`.
        helm: that of `helm template` on the same file; None where it was not asked.
        message: what `validate` printed.
        helm_message: what Helm printed, or `render` where Helm was not asked.
        fault: what is wrong with these verdicts; "" where they agree.
    """

    validate: int
    render: int
    helm: int | None
    message: str
    helm_message: str
    fault: str = ""


def judge(case: Case, helm: Path, folder: Path) -> Verdict:
    """Give a case to `validate`, `render` and Helm.

    Args:
        case: what to judge.
        helm: the helm to ask.
        folder: where the file is written.
    """
    values = case.mutated()
    file = folder / "values.yaml"
    file.write_text(dump(values), encoding="utf-8")
    code, message = command("validate", "-f", str(file))
    os.environ["ALLRANKS_HELM"] = str(helm)
    render, render_message = command("render", "demo", "-f", str(file))
    is_ours = not any(values.get(key) for key in _OURS) and values.get("workload") == case.workload
    helm_code, helm_message = None, render_message
    if is_ours:
        helm_code, helm_message = _helm(helm, case.workload, file)
    verdict = Verdict(code, render, helm_code, message, helm_message)
    return replace(verdict, fault=_fault(verdict, render_message, file))


def command(*words: str) -> tuple[int, str]:
    """The exit code of a command in this process, and all that it says."""
    out = io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True)
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(out):
        code = main(list(words))
    return code, out.buffer.getvalue().decode()  # type: ignore[attr-defined]


def minimal(case: Case, helm: Path) -> tuple[Case, Verdict]:
    """The case with the fewest of its changes that is judged as wrongly."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        verdict = judge(case, helm, folder)
        for change in case.changes:
            fewer = replace(
                case, changes=tuple(item for item in case.changes if item is not change)
            )
            verdict_of_fewer = judge(fewer, helm, folder)
            if verdict_of_fewer.fault:
                case, verdict = fewer, verdict_of_fewer
    return case, verdict


def _helm(helm: Path, workload: str, file: Path) -> tuple[int, str]:
    env = {name: value for name, value in os.environ.items() if not name.startswith("HELM_")}
    env |= {"HELM_PLUGINS": os.devnull, "GOGC": "off", "GOMEMLIMIT": "1GiB"}
    chart = resources.folder("charts") / workload
    process = subprocess.run(
        [helm, "template", "demo", chart, "--skip-crds", "-f", file],
        env=env,
        capture_output=True,
        text=True,
        check=False,
    )
    return process.returncode, process.stderr


def _fault(verdict: Verdict, render_message: str, file: Path) -> str:
    return _crash(verdict, render_message) or _difference(verdict, file)


def _crash(verdict: Verdict, render_message: str) -> str:
    both = verdict.message + render_message
    if "Traceback" in both or "this is a bug" in both:
        return "a crash"
    if {verdict.validate, verdict.render} - {0, 2}:
        return f"exit codes {verdict.validate} and {verdict.render}"
    if verdict.validate == 2 and not _has_fixes(verdict.message):
        return "a problem without a fix"
    return ""


def _difference(verdict: Verdict, file: Path) -> str:
    limited = "plain Helm" in verdict.message
    if verdict.render != (2 if limited or verdict.validate else 0):
        return "validate and render differ"
    if verdict.helm is None or (verdict.helm != 0) == (verdict.render != 0):
        return ""
    if verdict.helm == 0 and _ours_alone(file):
        return ""
    return "Helm differs"


def _has_fixes(message: str) -> bool:
    return message.count("error: ") <= message.count("\n  fix: ")


def _ours_alone(file: Path) -> bool:
    """Whether what we refuse is refused by rules that no chart has an equal of."""
    try:
        loaded = load_sources(Sources(files=(str(file),)))
    except InputError:
        return True  # Helm reads over what YAML makes of the file.
    if find_problems(loaded.workload, loaded.values, loaded.where):
        return False
    return bool(broken := broken_rules(loaded.values)) and broken <= OURS_ALONE


def broken_rules(values: dict[str, Any]) -> set[str]:
    """The ids of the rules that values break."""
    return {
        rule.id
        for rule in check.rules()
        if not rule.warning and check._run([rule], check.View(values, ()), lambda _: "", ())
    }
