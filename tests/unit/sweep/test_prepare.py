"""From files and flags to a sweep that can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from allranks.errors import InputError, InvalidValues
from allranks.sweep import naming, records, space
from allranks.sweep.model import ARG, PATH, Reach, Trial
from allranks.sweep.state import fold
from allranks.sweep.values.prepare import Prepared, Request, prepare, restore
from allranks.values.sources import Sources


class Write(Protocol):
    """Writes a YAML file and gives its path."""

    def __call__(self, content: Any, name: str = "values.yaml") -> str:
        """The path."""


BASE: dict[str, Any] = {
    "workload": "sweep",
    "image": {"repository": "any"},
    "command": ["python", "train.py"],
    "sweep": {"parameters": {"lr": {"values": ["1e-5", 0.1], "arg": "--lr"}}},
}


@pytest.fixture
def write(tmp_path: Path) -> Write:
    """Writes a YAML file and gives its path."""

    def make(content: Any, name: str = "values.yaml") -> str:
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(content if isinstance(content, str) else yaml.safe_dump(content))
        return str(path)

    return make


def _ask(*files: str, **how: Any) -> Prepared:
    sets = how.pop("sets", ())
    return prepare(Request("s", Sources(files=files, sets=sets), **how))


def _values(prepared: Prepared, number: int = 0) -> dict[str, Any]:
    assignment = space.assignment(prepared.spec.parameters, number)
    return prepared.values(Trial(number, naming.trial_name("s", assignment), assignment))


def test_a_trial_of_one_pod(write: Write) -> None:
    """It runs the command of the root, as a release of the sweep's own chart, laid out once."""
    found = _ask(write(BASE))
    assert ("sweep", "sweep") == (found.workload, Path(found.chart).name)
    values = _values(found)
    assert ["--lr", "1e-5"] == values["args"]
    assert 1 == values["layout"]["nodes"]
    (alone,) = values["sweep"]["parameters"].values()
    assert [naming.trial_name("s", space.assignment(found.spec.parameters, 0))] == alone["values"]
    assert "parameters" not in found.defaults


def test_a_trial_of_a_workload(write: Write) -> None:
    """Root values, then the file, then the trial's own; a size that is swept is laid out anew."""
    write({"env": {"FILE": "1", "BOTH": "file"}}, "more/trial.yaml")
    trial = {"workload": "torchrun", "file": "more/trial.yaml", "values": {"env": {"BOTH": "own"}}}
    parameters = {"size": {"values": [1, 2, 4], "path": "nodes"}}
    content = {**BASE, "sweep": {"parameters": parameters, "trial": trial}}
    content["env"] = {"ROOT": "1", "FILE": "root"}
    found = _ask(write(content))
    assert ("torchrun", None) == (found.workload, found.layout)
    values = [_values(found, number) for number in range(3)]
    assert (
        [1, 2, 4] == [one["nodes"] for one in values] == [one["layout"]["nodes"] for one in values]
    )
    assert {"ROOT": "1", "FILE": "1", "BOTH": "own"} == values[0]["env"]
    assert "sweep" not in values[0]
    assert "torchrun" == values[0]["workload"]


def test_a_chart_and_its_own_values(write: Write) -> None:
    """The flags make the sweep; a name that is a values path goes there, another to the command."""
    own = {
        "image": {"repository": "any"},
        "command": ["x"],
        "sweep": {"objective": {"metric": "m"}},
    }
    for chart in ("torchrun", "charts/torchrun"):
        found = _ask(
            write(own),
            chart=str(Path(__file__).parents[3] / chart) if "/" in chart else chart,
            ranges=("lr=1e-5,0.10", "nodes=1..2"),
            section={"trials": 3},
        )
        assert "torchrun" == found.workload
        assert (3, "m") == (found.spec.trials, found.spec.objective.metric)
        assert [(Reach(ARG, "--lr"),), (Reach(PATH, "nodes"),)] == [
            one.reaches for one in found.spec.parameters
        ]
        assert any("lr is no values path" in note for note in found.notes)
        values = _values(found, 2)
        assert (["--lr", "0.10"], 1) == (values["args"], values["nodes"])


def test_a_trial_of_another_workload(write: Write) -> None:
    """It has values that no other has, and is judged by its own chart's rules."""
    values: dict[str, Any] = {"nodes": 2, "mpi": {"processesAre": "workers"}}
    trial = {"workload": "mpi", "values": values}
    with pytest.raises(InvalidValues, match=r"sweep\.trial\.values\.mpi\.processesAre"):
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
    del values["mpi"]
    found = _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
    assert ("mpi", 2) == (found.workload, _values(found)["layout"]["nodes"])


def test_sweeping_over_files(write: Write) -> None:
    """Each item of a list is laid over the values of all trials."""
    over = write([{"env": {"A": "1"}}, {"env": {"A": "2"}}], "learning.yaml")
    plain = {key: value for key, value in BASE.items() if key != "sweep"}
    found = _ask(write(plain), overs=(f"learning={over}",))
    assert ["1", "2"] == [_values(found, number)["env"]["A"] for number in range(2)]
    with pytest.raises(InputError, match="learning is given by two flags"):
        _ask(write(plain), overs=(f"learning={over}",), ranges=("learning=1,2",))


def test_a_foreign_chart(write: Write, tmp_path: Path) -> None:
    """Its values decide what is a number; nothing of ours is added to them."""
    write({"apiVersion": "v2", "name": "mine", "version": "1.0.0"}, "mine/Chart.yaml")
    write({"learning": {"rate": "0.1", "layers": 2}}, "mine/values.yaml")
    chart = str(tmp_path / "mine")
    ranges = ("learning.rate=1e-5,0.10", "learning.layers=1..3")
    found = _ask(write({"learning": {"extra": "x"}}), chart=chart, ranges=ranges)
    assert ("", chart, None) == (found.workload, str(found.chart), found.layout)
    # By name the layers come first, and the rate changes fastest.
    assert {"learning": {"extra": "x", "rate": "0.10", "layers": 1}} == _values(found, 1)
    inside = {"chart": "mine", "values": {"learning": {"extra": "x"}}}
    parameters = {"r": {"values": [0.5], "path": "learning.rate"}}
    section = {"parameters": parameters, "trial": inside}
    found = _ask(write({"workload": "sweep", "sweep": section}))
    assert {"learning": {"extra": "x", "rate": "0.5"}} == _values(found)
    (tmp_path / "mine/values.yaml").write_text("# nothing\n")
    with pytest.raises(InvalidValues, match=r"the chart's values have no learning\.rate"):
        _ask(write({"workload": "sweep", "sweep": {**section, "trial": {"chart": "mine"}}}))
    with pytest.raises(InputError, match="there is no chart 'nowhere'"):
        _ask(chart="nowhere")
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match="is no chart"):
        _ask(chart=str(tmp_path / "empty"), ranges=("a=1,2",))


def test_values_that_no_trial_can_have_are_refused(write: Write) -> None:
    """Every choice of a swept value is tried against the chart's rules, before anything runs."""
    parameters = {"port": {"values": [29500, 99999], "path": "torchrun.port"}}
    trial = {"workload": "torchrun", "values": {"nodes": 2}}
    with pytest.raises(InvalidValues) as caught:
        _ask(write({**BASE, "sweep": {"parameters": parameters, "trial": trial}}))
    assert ["sweep.parameters.port"] == [problem.path for problem in caught.value.problems]
    with pytest.raises(InvalidValues, match=r"sweep\.paralel"):
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "paralel": 2}}))
    broken = {"workload": "torchrun", "values": {"shm": {"size": "much"}}}
    with pytest.raises(InvalidValues) as caught:
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": broken}}))
    assert "sweep.trial.values.shm.size" in [problem.path for problem in caught.value.problems]
    assert all("values.yaml:" in problem.source for problem in caught.value.problems)


def test_what_is_no_sweep_is_said(write: Write) -> None:
    """A file for a job needs its chart to be named; a section that is none is refused."""
    with pytest.raises(InputError, match="nothing says what to run"):
        _ask()
    with pytest.raises(InputError, match="are for the workload torchrun, not for a sweep"):
        _ask(write({**{k: v for k, v in BASE.items() if k != "sweep"}, "workload": "torchrun"}))
    with pytest.raises(InputError, match="sweep: must be a mapping"):
        _ask(write({"command": ["x"], "sweep": [1]}), chart="torchrun")


def test_a_journal_gives_the_sweep_back(write: Write, tmp_path: Path) -> None:
    """Without its files: the same values for the same trial."""
    write({"env": {"A": "1"}}, "trial.yaml")
    for trial in ({}, {"workload": "torchrun", "file": "trial.yaml"}):
        found = _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
        head = records.head(found.spec, 0.0, found.defaults, {"on": "local"}, found.owner)
        state = fold([head])
        again = restore(state)
        assert (found.spec, found.chart, found.layout) == (again.spec, again.chart, again.layout)
        assert found.owner == again.owner
        assert _values(found, 1) == _values(again, 1)
        assert {"on": "local"} == state.place
    assert (tmp_path / "trial.yaml").is_file()


def test_one_machine_does_not_begin_all_trials_at_once(write: Write) -> None:
    """Where nothing says how many, as many run as were asked for it, and that is said."""
    section = {"parameters": {"x": {"range": {"min": 1, "max": 9}, "arg": "-x"}}}
    found = _ask(write({**BASE, "sweep": section}), parallel=4)
    assert 4 == found.spec.parallel
    assert any(note.startswith("4 trials run at a time") for note in found.notes)
    found = _ask(write({**BASE, "sweep": {**section, "parallel": 9}}), parallel=4)
    assert (9, ()) == (found.spec.parallel, found.notes)
    assert 9 == _ask(write({**BASE, "sweep": section})).spec.parallel
