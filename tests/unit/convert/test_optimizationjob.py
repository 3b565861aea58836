"""OptimizationJobs as sweeps: what each field of a search and of a space becomes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from tests.converted import lost, refusal, text_as_jobs

if TYPE_CHECKING:
    from allranks.convert.verdicts import Conversion

_TEXT = """\
apiVersion: trainer.kubeflow.org/v1alpha1
kind: OptimizationJob
metadata: {name: a}
spec:
  numTrials: 2
  objectives: [OBJECTIVE]
  searchAlgorithm: SEARCH
  parameters: [{name: x, searchSpace: SPACE}MORE]
  trainJobTemplate: {spec: {runtimeRef: {name: torch-distributed}, trainer: {numNodes: 1,
    command: [torchrun, t.py, "--x={{.x}}", "--y={{ .other }}"], image: "a:1"}}}
"""
_OBJECTIVE, _SPACE = "{metric: acc}", '{uniform: {min: "0", max: "1"}}'


def _text(
    search: str = "{random: {}}", space: str = _SPACE, objective: str = _OBJECTIVE, more: str = ""
) -> str:
    text = _TEXT.replace("OBJECTIVE", objective).replace("SEARCH", search)
    return text.replace("SPACE", space).replace("MORE", more)


def _conversion(text: str) -> Conversion:
    (conversion,) = text_as_jobs(text).conversions
    return conversion


@pytest.mark.parametrize(
    ("search", "values", "losses"),
    [
        ("{tpe: {seed: 5}}", {"search": "tpe", "seed": 5}, []),
        ("{tpe: {}}", {"search": "tpe"}, []),
        ("{tpe: {nStartupTrials: 4}}", {"search": "tpe"}, ["tpe.nStartupTrials"]),
        ("{random: {seed: 7, x: 1}}", {"search": "random", "seed": 7}, ["random.x"]),
        ("{}", {"search": "random"}, []),
    ],
)
def test_a_search_has_its_own_name_and_its_seed(
    search: str, values: dict[str, Any], losses: list[str]
) -> None:
    """What it says besides is named as lost."""
    conversion = _conversion(_text(search))
    section = conversion.values["sweep"]
    assert values == {key: section[key] for key in ("search", "seed") if key in section}
    assert {f"spec.searchAlgorithm.{path}" for path in losses} == lost(conversion)


@pytest.mark.parametrize("search", ["{cmaes: {}}", "{random: {}, tpe: {}}"])
def test_a_search_that_is_not_known_is_refused(search: str) -> None:
    """So are two of them: which is meant, nothing says."""
    problem = refusal(_text(search))
    assert "spec.searchAlgorithm" == problem.path
    assert "grid, random, tpe" in problem.hint


@pytest.mark.parametrize(
    ("space", "values"),
    [
        ("uniform: {min: 8, max: 64, type: int}", {"intUniform": {"min": 8, "max": 64}}),
        ("uniform: {min: 8, max: 64, type: Int, step: 1}", {"intUniform": {"min": 8, "max": 64}}),
        (
            "uniform: {min: 8, max: 64, type: int, step: 8}",
            {"range": {"min": 8, "max": 64, "step": 8}},
        ),
        (
            'uniform: {min: "0.1", max: "0.5", type: Double, step: "0.1"}',
            {"range": {"min": 0.1, "max": 0.5, "step": 0.1}},
        ),
        ('logUniform: {min: "0.1", max: "1"}', {"logUniform": {"min": 0.1, "max": 1}}),
        ('categorical: {choices: [1, "1", true]}', {"values": ["1", "true"]}),
    ],
)
def test_a_space_is_of_the_numbers_that_it_was(space: str, values: dict[str, Any]) -> None:
    """A type in either spelling and a step count, and a choice is the text that YAML has."""
    conversion = _conversion(_text(space=f"{{{space}}}"))
    assert values == conversion.values["sweep"]["parameters"]["x"]
    assert set() == lost(conversion)


def test_choices_that_are_no_texts_are_said() -> None:
    """Kubernetes takes texts alone; one that is given twice is tried once."""
    conversion = _conversion(_text(space='{categorical: {choices: [1, "1", true, z]}}'))
    path = "spec.parameters[0].searchSpace.categorical.choices"
    whys = {item.path: item.why for item in conversion.verdicts if item.path.startswith(path)}
    assert ['taken for "1"', "tried once", 'taken for "true"', ""] == [
        why.partition("this is ")[2] or why[-10:] for why in whys.values()
    ]


@pytest.mark.parametrize(
    ("space", "path"),
    [
        ("uniform: {min: 1, max: 4, type: whole}", ".uniform.type"),
        ("uniform: {min: 1, max: 4, type: int, step: 0.5}", ".uniform.step"),
        ("uniform: {min: 1, max: 4, step: 0}", ".uniform.step"),
        ("uniform: {min: 1, max: 4}, categorical: {choices: [a]}", ""),
        ("categorical: {choices: []}", ""),
        ("normal: {mu: 1}", ""),
    ],
)
def test_a_space_that_a_sweep_has_not_is_refused(space: str, path: str) -> None:
    """The path is that of the field which is wrong."""
    problem = refusal(_text(space=f"{{{space}}}"))
    assert f"spec.parameters[0].searchSpace{path}" == problem.path
    assert problem.hint


def test_a_field_that_no_space_has_is_lost() -> None:
    """What a converter does not read is not called carried."""
    conversion = _conversion(_text(space="{uniform: {min: 1, max: 4, q: 2}}"))
    assert {"spec.parameters[0].searchSpace.uniform.q"} == lost(conversion)


def test_a_name_that_two_parameters_have_is_refused() -> None:
    """The first would be gone without a word."""
    problem = refusal(_text(more=f", {{name: x, searchSpace: {_SPACE}}}"))
    assert ("spec.parameters[1].name", True) == (
        problem.path,
        "spec.parameters[0] is called x as well" in problem.message,
    )


@pytest.mark.parametrize(("goal", "value"), [("0.9", 0.9), ('"0.5"', 0.5)])
def test_the_goal_is_the_sweep_s(goal: str, value: float) -> None:
    """A search is over with the first trial that reaches it."""
    conversion = _conversion(_text(objective=f"{{metric: acc, goal: {goal}, x: 1}}"))
    assert value == conversion.values["sweep"]["objective"]["goal"]
    assert {"spec.objectives[0].x"} == lost(conversion)


def test_a_direction_that_is_none_is_refused() -> None:
    """At the field of the object, with the two that there are."""
    problem = refusal(_text(objective="{metric: acc, direction: up}"))
    assert "spec.objectives[0].direction" == problem.path
    assert "Minimize or Maximize" in problem.hint


def test_a_holder_of_no_parameter_is_said() -> None:
    """It stays in the command as it is."""
    notes = _conversion(_text()).notes
    assert any("{{ .other }} stands in the trials as it is" in note for note in notes)
    more = f", {{name: other, searchSpace: {_SPACE}}}"
    assert not any("stands in the trials" in note for note in _conversion(_text(more=more)).notes)
