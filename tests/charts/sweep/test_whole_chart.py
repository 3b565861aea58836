"""What is refused, that every value changes the render, packaging, and who shares what."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.charts.shared import metadata, packaging, refusals
from tests.charts.shared.parity import ELSEWHERE, FITTING, GPUS, OTHER, Parity
from tests.charts.shared.rendered import SWEEP

if TYPE_CHECKING:
    from tests.charts.shared.rendered import Refusal, Render

REFUSED = refusals.refusal_cases("sweep")
ONE_NODE = {"nodes": 0}
LOGS = {"size": "1Gi"}
SHOWN = {
    "storage": {"workspace": LOGS, "checkpoints": LOGS},
    "sweep": {"tensorboard": {"enabled": True, "image": {"repository": "x"}}},
}
ELASTIC = {"torchrun": {"elastic": {"minNodes": 2, "maxNodes": 4}}}
SWEEP_CHART = Parity(
    chart=Path(__file__).parents[3] / "charts/sweep",
    base={
        "image": {"repository": "my/trainer", "tag": "1.4"},
        "command": ["/opt/train.py"],
        "nodes": 2,
        "sweep": {
            "parameters": {"lr": {"values": ["1", "2", "3", "4"], "arg": "--lr"}},
            "trial": {"workload": "torchrun"},
        },
    },
    fitting=FITTING
    | {
        "layout": GPUS | {"procsPerNode": 4, "sweep": {"trial": {"values": ELASTIC}}},
        "runPolicy.onStall": {"runPolicy": {"stallSeconds": 600}},
        "sweep.parallel": ONE_NODE,
        "sweep.maxFailedTrials": ONE_NODE,
        "sweep.objective.missedExitCode": ONE_NODE,
        "sweep.objective.goal": ONE_NODE | {"sweep": {"objective": {"missedExitCode": 3}}},
        "sweep.trial.workload": ONE_NODE | {"sweep": {"trial": {"workload": ""}}},
        "sweep.tensorboard": SHOWN,
        "sweep.tensorboard.enabled": {"storage": SHOWN["storage"]},
        "sweep.tensorboard.image.repository": {
            "storage": SHOWN["storage"],
            "sweep": {"tensorboard": {"enabled": True}},
        },
    },
    other=OTHER
    | {"sweep.maxFailedTrials": 2, "sweep.objective.missedExitCode": 3}
    | {"sweep.objective.goal": 0.9},
    elsewhere=ELSEWHERE
    | {
        "sweep.search": "plain Helm knows the grid alone",
        "sweep.order": "there is one",
        "sweep.earlyStopping.kind": "plain Helm ends no trial early",
        "sweep.trial.file": "read by the command line",
        "sweep.trial.chart": "for the command line",
    },
)


@pytest.mark.parametrize("key", SWEEP_CHART.changing)
def test_every_value_changes_the_render(key: str, helm4: Any) -> None:
    """A value that differs from its default makes other manifests."""
    SWEEP_CHART.check_change(key, helm4)


@pytest.mark.parametrize("key", sorted(SWEEP_CHART.elsewhere.keys() - {"sweep.order"}))
def test_what_changes_nothing_is_refused_or_known(key: str, helm4: Any) -> None:
    """A key that changes no manifest is refused, or is one of two bounds."""
    SWEEP_CHART.check_elsewhere(key, helm4, value="mpi")


def test_there_is_one_order(helm: Any) -> None:
    """A grid that is counted in another way would have other trials at the same index."""
    values = SWEEP_CHART.base | {"sweep": {"order": "column-major"}}
    assert "/sweep/order" in helm.refusal(SWEEP_CHART.chart, values=values)


def test_full_values_say_every_key() -> None:
    """full-values.yaml and the tables cover each key of values.yaml."""
    assert not SWEEP_CHART.missing()


# --- what is refused -----------------------------------------------------------------------------


@pytest.mark.parametrize("case", REFUSED, ids=refusals.names(REFUSED))
def test_refused_with_path_and_fix(case: dict[str, Any], refusal: Refusal) -> None:
    """Each is refused as "ERROR: path: what; fix"."""
    refusals.check_words(refusal(**case["values"]), case["problem"])


# What a sweep's own section may hold, `allranks sweep` decides; it knows more than one release.
SHARED = [case for case in REFUSED if case["values"]["sweep"] == SWEEP]


@pytest.mark.parametrize("case", refusals.for_command_line(SHARED), ids=lambda case: case["name"])
def test_the_command_line_refuses_the_same(case: dict[str, Any]) -> None:
    """What the chart refuses of a trial, the command line refuses before Helm runs."""
    refusals.check_command_line("sweep", case["values"])


def test_the_trials_own_values_are_judged_by_the_schema(helm: Any) -> None:
    """A typo in a trial's values is found as it is at the root; what they leave out is no error."""
    values = SWEEP_CHART.base | {
        "sweep": SWEEP_CHART.base["sweep"]
        | {"trial": {"workload": "torchrun", "values": {"torchrun": {"maxRestart": 3}}}}
    }
    message = helm.refusal(SWEEP_CHART.chart, values=values)
    assert "/sweep/trial/values/torchrun" in message
    assert "maxRestart" in message


def test_all_that_is_wrong_is_said_at_once(refusal: Refusal) -> None:
    """Every problem of the sweep's section is named in one run."""
    message = refusal(sweep={"search": "tpe", "parameters": {"a": {"values": []}, "b": {}}})
    assert {"sweep.search", "sweep.parameters.a.values", "sweep.parameters.b"} == {
        line.removeprefix("ERROR: ").partition(": ")[0]
        for line in message.replace("): ERROR", "\nERROR").splitlines()
        if line.startswith("ERROR: ")
    }


# --- the chart as a whole ------------------------------------------------------------------------


@pytest.mark.parametrize("values", ["minimal", "torchrun-nodes"])
def test_package_renders_the_same(values: str, sweep: Path, helm: Any, tmp_path: Path) -> None:
    """A packaged chart has the library and what it shares with torchrun inside."""
    packaging.check_package(helm, sweep, sweep / f"ci/{values}-values.yaml", tmp_path)


def test_library_is_a_link(sweep: Path) -> None:
    """The library inside the chart is the one beside it."""
    packaging.check_link(sweep)


def test_torchrun_is_the_charts_own(sweep: Path) -> None:
    """What a trial of torchrun runs is linked from the torchrun chart, so it is never stale."""
    torchrun = sweep.parent / "torchrun"
    links = {path.resolve() for path in sweep.glob("t*/*") if path.is_symlink()}
    unused = {torchrun / "values.yaml", torchrun / "values.schema.json"}
    files = {*unused, *(path.resolve() for path in torchrun.glob("files/*.*"))}
    assert files | set(torchrun.glob("templates/_*.tpl")) == links
    assert not [path for path in sweep.glob("templates/_torchrun*") if not path.is_symlink()]


@pytest.mark.parametrize("values", ["torchrun-nodes", "torchrun-one-node", "torchrun-static"])
def test_a_trial_of_torchrun_has_all_that_its_launcher_reads(
    values: str, template: Any, sweep: Path
) -> None:
    """In the ConfigMap of a grid lies what the torchrun chart has in its own."""
    torchrun = sweep.parent / "torchrun"
    own = template(torchrun, "-f", torchrun / "ci/minimal-values.yaml", name="one")
    grid = template(sweep, "-f", sweep / f"ci/{values}-values.yaml", name="one")
    names, names_of_grid = (
        {
            name
            for manifest in manifests
            for name in (manifest["data"] if manifest["kind"] == "ConfigMap" else ())
        }
        for manifests in (own, grid)
    )
    assert names - {"script"} <= names_of_grid


@pytest.mark.parametrize("values", ["tensorboard", "torchrun-nodes"])
def test_two_releases_share_no_object(values: str, template: Any, sweep: Path) -> None:
    """Two sweeps in one namespace never meet, not even in a selector."""
    path = sweep / f"ci/{values}-values.yaml"
    renders = [template(sweep, "-f", path, name=name) for name in ("one", "two")]
    metadata.check_apart(*renders)


def test_user_labels_and_annotations_are_everywhere(render: Render) -> None:
    """`labels` and `annotations` reach every object and the pods."""
    for nodes in (1, 2):
        manifests = render(
            labels={"team": "vision"},
            annotations={"example.com/note": "x"},
            storage={"workspace": {"size": "1Gi"}},
            serviceAccount={"create": True},
            nodes=nodes,
            sweep=SWEEP | {"tensorboard": {"enabled": True}},
        )
        stamps = metadata.metadata(manifests)
        assert len(stamps) > 8
        for meta in stamps:
            assert "vision" == meta["labels"]["team"]
            assert "x" == meta["annotations"]["example.com/note"]
