"""The values file of a trial runs what the trial ran: by plain Helm, and by `allranks run`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks import names
from allranks.cli import main
from allranks.helm import binary as helm_binary
from allranks.helm import driver
from allranks.sweep.model import Trial
from allranks.sweep.reporting.results import collect, values_file
from allranks.sweep.search import space
from allranks.sweep.spec import export, prepare
from allranks.values.sources import Sources
from allranks.yamlio.load import load_all
from tests.charts.shared.rendered import MINIMAL, by_name
from tests.charts.sweep.pods import TELL
from tests.conftest import exact

if TYPE_CHECKING:
    from pathlib import Path

    from tests.charts.sweep.pods import Pods

# All that a chart, a shell or a kubelet could take for its own.
NASTY = [
    *("${sweep.trial}", "${sweep.nope}", "$${sweep.a}", "${sweep.", "${sweep.open}", "${HOME}"),
    *("a\nb ${sweep.x\n}\n", 'it\'s "so" \\', "$(A) $$(A)", "{{ .Values }}", "\u2028é", "1e6"),
]
NAME = "s-1a2b3c4d"
TRIAL_VARIABLES = (names.ENV_SWEEP, names.ENV_TRIAL, names.ENV_TRIAL_NAME)


class Ran:
    """A trial that was rendered as `helm sweep` installs it, and its values files."""

    def __init__(self, folder: Path, helm: Any) -> None:
        self.folder, self.helm = folder, helm

    def begin(self, **values: Any) -> dict[str, Any]:
        """The manifests of the only trial of a sweep."""
        file = self.folder / "sweep.yaml"
        file.write_text(exact({"workload": "sweep", **MINIMAL, **values}), "utf-8")
        self.prepared = prepare.prepare(prepare.SweepFlags("s", Sources((str(file),))))
        spec = self.prepared.spec
        self.trial = Trial(0, NAME, space.assignment(spec.parameters, 0))
        chart_values = self.prepared.values(self.trial)
        binary = helm_binary.inspect(self.helm.path)
        text = driver.template(binary, NAME, "", self.prepared.chart, chart_values)
        return by_name([document for document in load_all(text) if document])

    def again(self, capture: Any, sweep: Path, *, exactly: bool) -> list[dict[str, Any]]:
        """The manifests of its values file, by plain Helm and by ours."""
        values = self.prepared.values(self.trial)
        trial_values = values if exactly else export.values_to_run(values)
        collected = collect(self.prepared.spec, [self.trial])
        file = self.folder / "again.yaml"
        file.write_text(values_file(collected, self.trial, trial_values), "utf-8")
        plain = self.helm.run("template", "demo", sweep, "-f", file).stdout
        capture.readouterr()
        assert 0 == main.main(["render", "demo", "-f", str(file), "--helm", str(self.helm.path)])
        ours = capture.readouterr().out
        return [
            by_name([document for document in load_all(text) if document]) for text in (plain, ours)
        ]


@pytest.mark.parametrize("exactly", [False, True], ids=["-o yaml", "--values"])
def test_it_gets_what_the_trial_got(
    *, exactly: bool, helm4: Any, sweep: Path, pods: Pods, tmp_path: Path, capfd: Any
) -> None:
    """Every choice as it was, by each way that a parameter has into a program."""
    parameters = {
        f"p{place}": {"values": [text], "arg": f"--p{place}=", "env": f"P{place}"}
        for place, text in enumerate(NASTY)
    }
    filled = "".join(f"<${{sweep.{name}}}>" for name in parameters)
    ran = Ran(tmp_path, helm4)
    first = ran.begin(
        command=TELL,
        args=["${sweep.trial}", filled],
        env={"ALL": filled},
        setup="IFS= read -r SETUP <<'E'\n${sweep.p0}\nE\nexport SETUP\n",
        sweep={"parameters": parameters},
    )
    trial = pods.start(first, 0, f"Job/{NAME}")
    assert [NAME, "".join(f"<{text}>" for text in NASTY)] == trial.argv[:2]
    assert [f"--p{place}={text}" for place, text in enumerate(NASTY)] == trial.argv[2:]
    assert "${sweep.trial}" == trial.env["SETUP"]
    variables = ["ALL", "SETUP", *(f"P{place}" for place in range(len(NASTY)))]
    variables += TRIAL_VARIABLES if exactly else ()
    for manifests in ran.again(capfd, sweep, exactly=exactly):
        start = pods.start(manifests, 0)
        assert trial.argv == start.argv
        assert [trial.env[name] for name in variables] == [start.env[name] for name in variables]


def test_what_is_no_part_of_the_program(
    helm4: Any, sweep: Path, tmp_path: Path, capfd: Any
) -> None:
    """An annotation has the text that it had."""
    ran = Ran(tmp_path, helm4)
    texts = ["${sweep.trial}", "$${sweep.${sweep.open}"]
    note = {"values": [texts[1]], "path": "annotations.note"}
    other = {"values": [texts[0]], "path": 'annotations["other"]'}
    first = ran.begin(sweep={"parameters": {"note": note, "other": other}})
    notes = first[f"Job/{NAME}"]["metadata"]["annotations"]
    assert texts == [notes["other"], notes["note"]]
    for manifests in ran.again(capfd, sweep, exactly=False):
        (job,) = [manifest for manifest in manifests.values() if manifest["kind"] == "Job"]
        annotations = job["metadata"]["annotations"]
        assert texts == [annotations["other"], annotations["note"]]
