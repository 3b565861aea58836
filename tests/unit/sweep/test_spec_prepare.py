"""From files and flags to a sweep that can run."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Protocol

import pytest
import yaml

from allranks.errors import InputError, InvalidValues
from allranks.sweep import naming, records
from allranks.sweep.model import ARG, PATH, Reach, Trial
from allranks.sweep.search import space
from allranks.sweep.spec.prepare import PreparedSweep, SweepFlags, prepare, restore
from allranks.sweep.state import fold
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


def _ask(*files: str, **options: Any) -> PreparedSweep:
    sets = options.pop("sets", ())
    return prepare(SweepFlags("s", Sources(files=files, sets=sets), **options))


def _values(prepared: PreparedSweep, number: int = 0) -> dict[str, Any]:
    assignment = space.assignment(prepared.spec.parameters, number)
    return prepared.values(Trial(number, naming.trial_name("s", assignment), assignment))


def test_a_trial_of_one_pod(write: Write) -> None:
    """It runs the command of the root, as a release of the sweep's own chart, laid out once."""
    sweep = _ask(write(BASE))
    assert ("sweep", "sweep") == (sweep.workload, Path(sweep.chart).name)
    values = _values(sweep)
    assert ["--lr", "1e-5"] == values["args"]
    assert 1 == values["layout"]["nodes"]
    (alone,) = values["sweep"]["parameters"].values()
    assert [naming.trial_name("s", space.assignment(sweep.spec.parameters, 0))] == alone["values"]
    assert "parameters" not in sweep.defaults


def test_a_trial_of_a_workload(write: Write) -> None:
    """Root values, then the file, then the trial's own; a size that is swept is laid out anew."""
    write({"env": {"FILE": "1", "BOTH": "file"}}, "more/trial.yaml")
    trial = {"workload": "torchrun", "file": "more/trial.yaml", "values": {"env": {"BOTH": "own"}}}
    parameters = {"size": {"values": [1, 2, 4], "path": "nodes"}}
    content = {**BASE, "sweep": {"parameters": parameters, "trial": trial}}
    content["env"] = {"ROOT": "1", "FILE": "root"}
    sweep = _ask(write(content))
    assert ("torchrun", None) == (sweep.workload, sweep.layout)
    values = [_values(sweep, number) for number in range(3)]
    assert (
        [1, 2, 4]
        == [trial_values["nodes"] for trial_values in values]
        == [trial_values["layout"]["nodes"] for trial_values in values]
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
        sweep = _ask(
            write(own),
            chart=str(Path(__file__).parents[3] / chart) if "/" in chart else chart,
            ranges=("lr=1e-5,0.10", "nodes=1..2"),
            section={"trials": 3},
        )
        assert "torchrun" == sweep.workload
        assert (3, "m") == (sweep.spec.trials, sweep.spec.objective.metric)
        assert [(Reach(ARG, "--lr"),), (Reach(PATH, "nodes"),)] == [
            parameter.reaches for parameter in sweep.spec.parameters
        ]
        assert any("lr is no values path" in note for note in sweep.notes)
        values = _values(sweep, 2)
        assert (["--lr", "0.10"], 1) == (values["args"], values["nodes"])


def test_a_trial_of_another_workload(write: Write) -> None:
    """It has values that no other has, and is judged by its own chart's rules."""
    values: dict[str, Any] = {"nodes": 2, "mpi": {"processesAre": "workers"}}
    trial = {"workload": "mpi", "values": values}
    with pytest.raises(InvalidValues, match=r"sweep\.trial\.values\.mpi\.processesAre"):
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
    del values["mpi"]
    sweep = _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
    assert ("mpi", 2) == (sweep.workload, _values(sweep)["layout"]["nodes"])


def test_sweeping_over_files(write: Write) -> None:
    """Each item of a list is laid over the values of all trials."""
    over = write([{"env": {"A": "1"}}, {"env": {"A": "2"}}], "learning.yaml")
    plain = {key: value for key, value in BASE.items() if key != "sweep"}
    sweep = _ask(write(plain), overs=(f"learning={over}",))
    assert ["1", "2"] == [_values(sweep, number)["env"]["A"] for number in range(2)]
    with pytest.raises(InputError, match="learning is given by two flags"):
        _ask(write(plain), overs=(f"learning={over}",), ranges=("learning=1,2",))


def test_a_foreign_chart(write: Write, tmp_path: Path) -> None:
    """Its values decide what is a number; nothing of ours is added to them."""
    write({"apiVersion": "v2", "name": "mine", "version": "1.0.0"}, "mine/Chart.yaml")
    write({"learning": {"rate": "0.1", "layers": 2}}, "mine/values.yaml")
    chart = str(tmp_path / "mine")
    ranges = ("learning.rate=1e-5,0.10", "learning.layers=1..3")
    sweep = _ask(write({"learning": {"extra": "x"}}), chart=chart, ranges=ranges)
    assert ("", chart, None) == (sweep.workload, str(sweep.chart), sweep.layout)
    # By name the layers come first, and the rate changes fastest.
    assert {"learning": {"extra": "x", "rate": "0.10", "layers": 1}} == _values(sweep, 1)
    inside = {"chart": "mine", "values": {"learning": {"extra": "x"}}}
    parameters = {"r": {"values": [0.5], "path": "learning.rate"}}
    section = {"parameters": parameters, "trial": inside}
    sweep = _ask(write({"workload": "sweep", "sweep": section}))
    assert {"learning": {"extra": "x", "rate": "0.5"}} == _values(sweep)
    (tmp_path / "mine/values.yaml").write_text("# nothing\n")
    with pytest.raises(InvalidValues, match=r"the chart's values have no learning\.rate"):
        _ask(write({"workload": "sweep", "sweep": {**section, "trial": {"chart": "mine"}}}))
    with pytest.raises(InputError, match="there is no chart 'nowhere'"):
        _ask(chart="nowhere")
    (tmp_path / "empty").mkdir()
    for name, words in (
        ("./nowhere", "there is no chart './nowhere'"),
        ("empty", "'empty' is no chart"),
    ):
        with pytest.raises(InputError) as excinfo:
            _ask(write({"workload": "sweep", "sweep": {**section, "trial": {"chart": name}}}))
        problem = excinfo.value.problem
        assert ("sweep.trial.chart", words) == (problem.path, problem.message)
        assert problem.source.rpartition(":")[2].isdigit()
    with pytest.raises(InputError, match="is no chart"):
        _ask(chart=str(tmp_path / "empty"), ranges=("a=1,2",))


def test_values_that_no_trial_can_have_are_refused(write: Write) -> None:
    """Every choice of a swept value is tried against the chart's rules, before anything runs."""
    parameters = {"port": {"values": [29500, 99999], "path": "torchrun.port"}}
    trial = {"workload": "torchrun", "values": {"nodes": 2}}
    with pytest.raises(InvalidValues) as excinfo:
        _ask(write({**BASE, "sweep": {"parameters": parameters, "trial": trial}}))
    assert ["sweep.parameters.port"] == [problem.path for problem in excinfo.value.problems]
    with pytest.raises(InvalidValues, match=r"sweep\.paralel"):
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "paralel": 2}}))
    broken = {"workload": "torchrun", "values": {"shm": {"size": "much"}}}
    with pytest.raises(InvalidValues) as excinfo:
        _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": broken}}))
    assert "sweep.trial.values.shm.size" in [problem.path for problem in excinfo.value.problems]
    assert all("values.yaml:" in problem.source for problem in excinfo.value.problems)


@pytest.mark.parametrize(
    ("parameters", "path", "message"),
    [
        (
            {"image.tag": {"values": ["a b"]}},
            'sweep.parameters["image.tag"]',
            '"a b" is not an image tag',
        ),
        (
            {"size": {"path": "nodes", "values": ["abc"]}},
            "sweep.parameters.size",
            'at nodes: "abc" is a string',
        ),
    ],
)
def test_a_choice_that_the_chart_refuses_is_told_where_it_was_typed(
    write: Write, parameters: dict[str, Any], path: str, message: str
) -> None:
    """In the parameter, whether its name is the values path or not."""
    file = write({**BASE, "sweep": {"parameters": parameters}})
    with pytest.raises(InvalidValues) as excinfo:
        _ask(file)
    (problem,) = excinfo.value.problems
    assert path == problem.path
    assert problem.message.startswith(message)
    assert problem.source.startswith(file)


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
        sweep = _ask(write({**BASE, "sweep": {**BASE["sweep"], "trial": trial}}))
        head = records.head(sweep.spec, 0.0, sweep.defaults, {"on": "local"}, sweep.owner)
        state = fold([head])
        restored_sweep = restore(state)
        assert (sweep.spec, sweep.chart, sweep.layout) == (
            restored_sweep.spec,
            restored_sweep.chart,
            restored_sweep.layout,
        )
        assert sweep.owner == restored_sweep.owner
        assert _values(sweep, 1) == _values(restored_sweep, 1)
        assert {"on": "local"} == state.place
    assert (tmp_path / "trial.yaml").is_file()


def test_one_machine_does_not_begin_all_trials_at_once(write: Write) -> None:
    """Where nothing says how many, as many run as were asked for it, and that is said."""
    section = {"parameters": {"x": {"range": {"min": 1, "max": 9}, "arg": "-x"}}}
    sweep = _ask(write({**BASE, "sweep": section}), parallel=4)
    assert 4 == sweep.spec.parallel
    assert any(note.startswith("4 trials run at a time") for note in sweep.notes)
    sweep = _ask(write({**BASE, "sweep": {**section, "parallel": 9}}), parallel=4)
    assert (9, ()) == (sweep.spec.parallel, sweep.notes)
    assert 9 == _ask(write({**BASE, "sweep": section})).spec.parallel
