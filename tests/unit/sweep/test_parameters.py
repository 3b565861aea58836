"""The forms of parameters: what is taken, and what is said of what is not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks.errors import InputError, InvalidValues
from allranks.sweep.model import Choice, IntUniform, LogUniform, Range, Reach, Uniform, Values
from allranks.sweep.spec import parameters as spec_parameters
from allranks.sweep.spec.parameters import ParameterReader
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load

PATH = ("sweep", "parameters")


def read(parameters: str) -> tuple[Any, ...]:
    """The parameters of a values file, or its problems."""
    document = load(f"sweep:\n  parameters: {parameters}\n", "v.yaml")
    reading = ParameterReader(document.token, document.where)
    parsed_parameters = spec_parameters.parameters(
        reading, PATH, document.data["sweep"]["parameters"]
    )
    reading.done()
    return parsed_parameters


def problem(parameters: str) -> str:
    """All that is said of parameters that are refused."""
    with pytest.raises(InvalidValues) as excinfo:
        read(parameters)
    return str(excinfo.value)


@pytest.mark.parametrize(
    ("token", "text", "data"),
    [
        ("1e-5", "1e-5", 1e-5),
        ("0.10", "0.10", 0.1),
        ("1e6", "1e6", 1e6),
        ("true", "true", True),
        ("Yes", "Yes", True),
        ('"08"', "08", "08"),
        ("08", "08", 8.0),
        ("0x10", "0x10", 16),
        ("1_000", "1_000", 1000),
        ("+1", "+1", 1),
        ("adam", "adam", "adam"),
        ('"true"', "true", "true"),
        ('""', "", ""),
        ("'a, b'", "a, b", "a, b"),
        ('"ünï\\n"', "ünï\n", "ünï\n"),
    ],
)
def test_a_value_is_its_text_and_its_data(token: str, text: str, data: Any) -> None:
    """The text as it was typed, the data as YAML reads it."""
    (parameter,) = read(f"{{lr: {{values: [{token}]}}}}")
    assert Values((Choice(text, data),)) == parameter.space
    assert type(data) is type(parameter.space.choices[0].data)


@settings(max_examples=300)
@given(
    st.from_regex(r"[-+]?(0|[1-9][0-9]{0,6})(\.[0-9]{0,6})?([eE][-+]?[0-9]{1,2})?", fullmatch=True)
    | st.sampled_from(["true", "False", "yes", "off", "007", "0o17", ".5", "1e400", "1:30"])
)
def test_any_plain_scalar_keeps_its_text(scalar: str) -> None:
    """Whatever YAML makes of it."""
    (parameter,) = read(f"{{x: {{values: [{scalar}]}}}}")
    assert scalar == parameter.space.choices[0].text


@settings(max_examples=200)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=30))
def test_any_text_in_quotes_keeps_its_text(text: str) -> None:
    """JSON strings are YAML's, too."""
    document = load(dump({"sweep": {"parameters": {"x": {"values": [text]}}}}), "v.yaml")
    reading = ParameterReader(document.token, document.where)
    (parameter,) = spec_parameters.parameters(reading, PATH, document.data["sweep"]["parameters"])
    assert Values((Choice(text, text),)) == parameter.space


def test_a_number_whose_token_is_not_known_has_the_shortest_text() -> None:
    """As where values come as JSON."""
    reading = ParameterReader()
    parameters = spec_parameters.parameters(reading, PATH, {"x": {"values": [1e-5, 0.1, 3, True]}})
    space = parameters[0].space
    assert isinstance(space, Values)
    assert ["1e-05", "0.1", "3", "true"] == [choice.text for choice in space.choices]


def test_a_token_of_another_value_is_not_taken() -> None:
    """A flag may have replaced what the file has at the same place."""
    reading = ParameterReader(lambda _path: "1e-5")
    (parameter,) = spec_parameters.parameters(reading, PATH, {"x": {"values": [0.5]}})
    assert Values((Choice("0.5", 0.5),)) == parameter.space


@pytest.mark.parametrize(
    ("form", "space"),
    [
        ("range: {min: 16, max: 256, step: 16}", Range(*map(Decimal, ("16", "256", "16")))),
        ("quantized: {min: 0.10, max: 1, step: 0.1}", Range(*map(Decimal, ("0.10", "1", "0.1")))),
        ("range: {min: 1, max: 3}", Range(*map(Decimal, (1, 3, 1)))),
        ("uniform: {min: 0.5, max: 0.99}", Uniform(0.5, 0.99)),
        ("logUniform: {min: 1e-5, max: 1}", LogUniform(1e-5, 1.0)),
        ("intUniform: {min: 1, max: 1e3}", IntUniform(1, 1000)),
    ],
)
def test_the_forms(form: str, space: object) -> None:
    """Each makes its space."""
    assert space == read(f"{{x: {{{form}}}}}")[0].space


def test_how_a_parameter_reaches_the_trial() -> None:
    """By an option, a variable, or values paths, several of each."""
    (parameter,) = read("{lr: {values: [1], arg: --lr, env: LR, path: [a.b, torchrun.port]}}")
    assert (
        Reach("arg", "--lr"),
        Reach("env", "LR"),
        Reach("path", "a.b"),
        Reach("path", "torchrun.port"),
    ) == parameter.reaches


@pytest.mark.parametrize(
    ("parameters", "path", "message"),
    [
        ("{}", "sweep.parameters", "a sweep needs parameters"),
        ("[lr]", "sweep.parameters", "a sweep needs parameters"),
        ("{lr: {values: []}}", "sweep.parameters.lr.values", "the list is empty"),
        ("{lr: {values: 1e-5}}", "sweep.parameters.lr.values", "must be a list"),
        ("{lr: [1]}", "sweep.parameters.lr", "write lr: {values: [...]}"),
        ("{lr: 5}", "sweep.parameters.lr", "must be a mapping, not a number"),
        ("{lr: {}}", "sweep.parameters.lr", "has no values"),
        ("{lr: {arg: --lr}}", "sweep.parameters.lr", "has no values"),
        (
            "{lr: {values: [1], range: {min: 1, max: 2}}}",
            "sweep.parameters.lr",
            "has values and range",
        ),
        ("{lr: {value: [1]}}", "sweep.parameters.lr.value", "write values"),
        ("{lr: {values: [1, 2, 1]}}", "sweep.parameters.lr.values[2]", "'1' is given twice"),
        ('{lr: {values: [1, "1"]}}', "sweep.parameters.lr.values[1]", "'1' is given twice"),
        (
            "{lr: {values: [1, 1.0]}}",
            "sweep.parameters.lr.values[1]",
            "1.0 is the same number as 1",
        ),
        (
            "{lr: {values: [1e-4, 3, 0.0001]}}",
            "sweep.parameters.lr.values[2]",
            "0.0001 is the same number as 1e-4",
        ),
        ("{lr: {values: [null]}}", "sweep.parameters.lr.values[0]", "not nothing"),
        ("{lr: {values: [[1]]}}", "sweep.parameters.lr.values[0]", "not a list"),
        ('{lr: {values: ["a\\0"]}}', "sweep.parameters.lr.values[0]", "NUL"),
        (
            "{b: {range: {min: 5, max: 1}}}",
            "sweep.parameters.b.range",
            "min is 5, above max, which is 1",
        ),
        ("{b: {range: {min: 1, max: 5, step: 0}}}", "sweep.parameters.b.range.step", "above 0"),
        ("{b: {range: {min: 1, max: 5, step: -1}}}", "sweep.parameters.b.range.step", "above 0"),
        ("{b: {range: {min: 0.1, max: 5}}}", "sweep.parameters.b.range", "step is missing"),
        ("{b: {range: {max: 5}}}", "sweep.parameters.b.range", "min is missing"),
        ("{b: {range: {min: 1, max: 2, by: 1}}}", "sweep.parameters.b.range.by", "no 'by'"),
        ('{b: {range: {min: "1", max: 2}}}', "sweep.parameters.b.range.min", "remove the quotes"),
        ("{b: {range: {min: true, max: 2}}}", "sweep.parameters.b.range.min", "must be a number"),
        ("{m: {uniform: {min: 0.9, max: 0.5}}}", "sweep.parameters.m.uniform", "above max"),
        ("{m: {uniform: {min: -1e308, max: 1e308}}}", "sweep.parameters.m.uniform", "too wide"),
        (
            "{m: {logUniform: {min: -1, max: 1}}}",
            "sweep.parameters.m.logUniform.min",
            "a logarithmic range must be above 0, and -1 is not",
        ),
        ("{m: {logUniform: {min: 0, max: 1}}}", "sweep.parameters.m.logUniform.min", "above 0"),
        ("{m: {intUniform: {min: 0.5, max: 1}}}", "sweep.parameters.m.intUniform.min", "whole"),
        ("{m: {intUniform: {min: 2, max: 1}}}", "sweep.parameters.m.intUniform", "above max"),
        ('{"a b": {values: [1]}}', 'sweep.parameters["a b"]', "no name of a parameter"),
        ("{trial: {values: [1]}}", "sweep.parameters.trial", "the trial's own name"),
        ("{x: {values: [1], env: 1X}}", "sweep.parameters.x.env", "no name of a variable"),
        ("{x: {values: [1], arg: ''}}", "sweep.parameters.x.arg", "is empty"),
        ("{x: {values: [1], path: [5]}}", "sweep.parameters.x.path[0]", "must be text"),
    ],
)
def test_what_is_wrong_is_said_at_its_path_and_line(
    parameters: str, path: str, message: str
) -> None:
    """With the values file's line."""
    text = problem(parameters)
    assert message in text
    assert text.startswith(f"{path}: ")
    assert "(v.yaml:2)" in text


def test_every_mistake_is_said_at_once() -> None:
    """Not one per attempt."""
    text = problem("{a: {values: []}, b: {range: {min: 2, max: 1}}, c: {values: [null]}}")
    assert 3 == text.count("fix: ")


def test_a_number_of_a_thousand_zeros_costs_nothing() -> None:
    """Its digits are those of the float it is."""
    (parameter,) = read("{x: {range: {min: 1e-999999999, max: 1, step: 0.5}}}")
    assert Range(Decimal("0.0"), Decimal(1), Decimal("0.5")) == parameter.space


@pytest.mark.parametrize(
    ("flag", "expected"),
    [
        ("lr=1e-5,1e-4", Values((Choice("1e-5", 1e-5), Choice("1e-4", 1e-4)))),
        ("seed=1..10", Range(*map(Decimal, (1, 10, 1)))),
        ("x=0.1..0.50..0.2", Range(*map(Decimal, ("0.1", "0.50", "0.2")))),
        ("x=-5..5..5", Range(*map(Decimal, (-5, 5, 5)))),
        ("opt=sgd,adam", Values((Choice("sgd", "sgd"), Choice("adam", "adam")))),
        (r"opt=a\,b,c", Values((Choice("a,b", "a,b"), Choice("c", "c")))),
        ("a.b=null,", Values((Choice("null", "null"), Choice("", "")))),
        (
            "v=0.10,true,08x",
            Values((Choice("0.10", 0.1), Choice("true", True), Choice("08x", "08x"))),
        ),
        ("v=x=1", Values((Choice("x=1", "x=1"),))),
        ('a["b.c/d"].e=1', Values((Choice("1", 1),))),
        (r"a.b\.c/d=1", Values((Choice("1", 1),))),
        ("x=0..18446744073709551615", Range(Decimal(0), Decimal(2**64 - 1), Decimal(1))),
        ("v=.inf,1e400", Values((Choice(".inf", ".inf"), Choice("1e400", "1e400")))),
    ],
)
def test_a_range_on_the_command_line(flag: str, expected: object) -> None:
    """Values with commas between, or two ends with points between, and a step behind."""
    assert expected == spec_parameters.flag(flag).space
    assert flag.partition("=")[0] == spec_parameters.flag(flag).name


@pytest.mark.parametrize(
    ("flag", "message"),
    [
        ("lr", "name=values"),
        ("=1", "name=values"),
        ("lr=", "the list is empty"),
        ("seed=10..1", "min is 10, above max"),
        ("seed=0.1..1", "seed=0.1..1..STEP"),
        ("x=1..1e9", "write how far apart the values are behind the ends: x=1..1e9..STEP"),
        ("args[x]=1", "no name of a parameter"),
        ("seed=1..2..0", "above 0"),
        ("seed=e..2", "seed.range: e is no number, and a range has two"),
        ("seed=1..1-2", "fix: write 1..10 or 0.1..0.5..0.1; where it is text, seed=1\\..1-2"),
        ("y=1e308..1e309", "y.range: 1e309 is more than a number can be"),
        ("y=-1e309..1..1", "y.range: -1e309 is more than a number can be"),
        ("y=0..1..1e-300", "there are more than 10^30 values"),
        ("a b=1", "no name of a parameter"),
        ("lr=1,1", "given twice"),
    ],
)
def test_a_wrong_range_on_the_command_line(flag: str, message: str) -> None:
    """Says what is wrong, and which flag it was."""
    with pytest.raises(InputError) as excinfo:
        spec_parameters.flag(flag)
    assert message in str(excinfo.value)
    assert f"--set-range {flag}" in str(excinfo.value)
    assert "quotes" not in str(excinfo.value)
    assert "step: 0.1" not in str(excinfo.value)
