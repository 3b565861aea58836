"""One verdict on a sweep from validate, plan, render, `sweep run` and Helm itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.cli.main import main
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.usefixtures("forked")

CHOICES = {"values": [1, 2]}
LR = {"lr": {**CHOICES, "arg": "--lr"}}
# What nobody takes, whatever runs the sweep, and a word of what is said of it.
WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "no parameters": ({"sweep": {}}, "sweep.parameters: "),
    "reaches nothing": ({"sweep": {"parameters": {"lr": CHOICES}}}, "reaches nothing"),
    "no values": ({"sweep": {"parameters": {"lr": {"arg": "--lr"}}}}, "no values"),
    "an empty list": ({"sweep": {"parameters": {"lr": {"values": [], "arg": "-l"}}}}, "at least"),
    "a choice twice": ({"sweep": {"parameters": {"lr": {"values": [1, 1], "arg": "-l"}}}}, "twice"),
    "no such path": (
        {"sweep": {"parameters": {"p": {**CHOICES, "path": "torchrun.port"}}}},
        "no torchrun.port",
    ),
    "a path of a number": (
        {"sweep": {"parameters": {"p": {"values": ["a"], "path": "runPolicy.backoffLimit"}}}},
        'at runPolicy.backoffLimit: "a" is a string',
    ),
    "a path with a line end": (
        {"sweep": {"parameters": {"p": {**CHOICES, "path": "resources.perPod.limits.cpu\n"}}}},
        "not a values path",
    ),
    "a path of a map": (
        {"sweep": {"parameters": {"p": {**CHOICES, "path": "runPolicy"}}}},
        "runPolicy is a mapping",
    ),
    "no such parameter": (
        {"args": ["${sweep.x}"], "sweep": {"parameters": LR}},
        "args[0]: ${sweep.x} names no parameter",
    ),
    "an unknown workload": (
        {"sweep": {"parameters": LR, "trial": {"workload": "torchrum"}}},
        "write torchrun",
    ),
    "a folder elsewhere": (
        {"sweep": {"parameters": LR, "trial": {"workload": "../../x"}}},
        "is not one of",
    ),
    "a sweep of sweeps": (
        {"sweep": {"parameters": LR, "trial": {"workload": "sweep"}}},
        "is not one of",
    ),
    "a chart that runs nothing": (
        {"sweep": {"parameters": LR, "trial": {"workload": "operator"}}},
        "is not one of",
    ),
    "a trial that never ends": (
        {
            "sweep": {
                "parameters": LR,
                "trial": {
                    "workload": "torchrun",
                    "values": {"torchrun": {"controller": "StatefulSet"}},
                },
            }
        },
        "never ends",
    ),
    "torchrun's values without it": (
        {"sweep": {"parameters": LR, "trial": {"values": {"torchrun": {"port": 3000}}}}},
        "does not run torchrun",
    ),
    "a preset of a trial": (
        {"sweep": {"parameters": LR, "trial": {"values": {"preset": "h100-8x"}}}},
        "the whole sweep",
    ),
    "several pods that nothing runs": (
        {"nodes": 2, "sweep": {"parameters": LR}},
        "needs something",
    ),
}
# What `sweep run` can do and plain Helm cannot.
PLAIN: dict[str, dict[str, Any]] = {
    "a search": {"search": "random", "trials": 2, "parameters": LR},
    "an early end": {
        "earlyStopping": {"kind": "median"},
        "objective": {"metric": "a"},
        "parameters": LR,
    },
    "a goal": {"objective": {"metric": "a", "goal": 0.9}, "parameters": LR},
    "a workload": {"trial": {"workload": "mpi"}, "parameters": LR},
    "an item of a list": {"parameters": {"p": {**CHOICES, "path": "args[0]"}}},
    "many sets": {
        "parameters": {"p": {"range": {"min": 0, "max": 150}, "path": "runPolicy.backoffLimit"}}
    },
    "sets in turn": {
        "parallel": 1,
        "parameters": {"p": {**CHOICES, "path": "runPolicy.backoffLimit"}},
    },
    "a number that Helm rounds": {"parameters": {"p": {"values": [1e308, 1], "arg": "--p"}}},
    "a board without its volume": {"tensorboard": {"enabled": True}, "parameters": LR},
}


@pytest.fixture
def ask(tmp_path: Path, helm4: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> Any:
    """Asks a command about values; gives its exit code and all that it says."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ALLRANKS_HELM", str(helm4.path))

    def call(values: dict[str, Any], *command: str, flags: tuple[str, ...] = ()) -> tuple[int, str]:
        base = {"workload": "sweep", "image": {"repository": "a/b"}, "command": ["python", "t.py"]}
        (tmp_path / "v.yaml").write_text(dump(base | values), encoding="utf-8")
        code = main([*command, "-f", "v.yaml", *flags])
        output = capsys.readouterr()
        return code, output.out + output.err

    return call


def _all(ask: Any, values: dict[str, Any]) -> dict[str, tuple[int, str]]:
    return {
        "validate": ask(values, "validate"),
        "plan": ask(values, "plan"),
        "render": ask(values, "render", "demo"),
        "run": ask(values, "sweep", "run", "demo", flags=("--dry-run", "--on", "local")),
    }


@pytest.mark.parametrize("case", WRONG)
def test_what_is_wrong_is_refused_by_everybody(
    case: str, ask: Any, sweep: Path, helm4: Any, tmp_path: Path
) -> None:
    """The same words from each command, with exit code 2; Helm takes it neither."""
    values, words = WRONG[case]
    for command, (code, text) in _all(ask, values).items():
        assert (2, True) == (code, words in text), f"{command}: {text}"
    assert helm4.run("template", "demo", sweep, "-f", tmp_path / "v.yaml", check=False).returncode


@pytest.mark.parametrize("case", PLAIN)
def test_what_plain_helm_cannot_run_is_told_beforehand(
    case: str, ask: Any, sweep: Path, helm4: Any, tmp_path: Path
) -> None:
    """`sweep run` takes it, and validate and plan, which say why Helm and `render` do not."""
    verdicts = _all(ask, {"args": ["x"], "sweep": PLAIN[case]})
    assert {"validate": 0, "plan": 0, "render": 2, "run": 0} == {
        command: code for command, (code, _) in verdicts.items()
    }, verdicts
    assert "plain Helm" in verdicts["validate"][1]
    assert "plain Helm" in verdicts["render"][1]
    assert helm4.run("template", "demo", sweep, "-f", tmp_path / "v.yaml", check=False).returncode


def test_a_quoted_number_is_one_where_the_chart_has_one(
    ask: Any, sweep: Path, helm4: Any, tmp_path: Path
) -> None:
    """A choice in quotes is taken at the place of a number, as charts/sweep takes it."""
    parameters = {"p": {"values": ["3", "0"], "path": "runPolicy.backoffLimit"}}
    verdicts = _all(ask, {"sweep": {"parameters": parameters}})
    assert {0} == {code for code, _ in verdicts.values()}, verdicts
    assert "backoffLimitPerIndex: 3" in helm4.render(sweep, "-f", tmp_path / "v.yaml")


def test_a_value_of_another_folder_is_never_read(ask: Any, tmp_path: Path) -> None:
    """A workload's name is checked before a file is looked for by it."""
    (tmp_path / "values.yaml").write_text("secret: [", encoding="utf-8")
    trial = {"workload": str(tmp_path)}
    code, text = ask({"sweep": {"parameters": LR, "trial": trial}}, "validate")
    assert (2, False) == (code, "secret" in text or "not YAML" in text)
    assert load((tmp_path / "v.yaml").read_bytes(), "v.yaml").data["sweep"]["trial"] == trial


@pytest.mark.parametrize(
    ("word", "fix"),
    [("true", "true"), ("Auto", "auto"), ("off", "false"), ("ture", "true")],
)
def test_true_and_false_among_the_choices(ask: Any, word: str, fix: str) -> None:
    """An enumeration with booleans in it names them, and the nearest."""
    flags = ("--set-json", f'status.enabled="{word}"')
    code, text = ask({"sweep": {"parameters": LR}}, "validate", flags=flags)
    assert (2, True) == (code, "is not one of auto, true, false" in text)
    assert f"write --set status.enabled={fix}" in text
