"""What a person typed for a sweep is what each trial's container gets, through YAML and Helm."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.sweep.search import space
from allranks.sweep.spec import parse as specs
from allranks.sweep.spec.apply import bind, trial_values
from allranks.values.sources import defaults
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load
from tests.charts.shared.rendered import MINIMAL, by_name, templates
from tests.charts.shared.strings import STRINGS, expand
from tests.conftest import exact

if TYPE_CHECKING:
    from pathlib import Path

NUMBERS = st.from_regex(
    r"[-+]?(0|[1-9][0-9]{0,8})(\.[0-9]{1,6})?([eE][-+]?[0-9]{1,2})?", fullmatch=True
)
# As they stand in a values file, and the text that they are.
PLAIN = st.one_of(
    NUMBERS,
    st.sampled_from(["1e-5", "0.10", "1e6", "true", "Yes", "off", "0x1F", "1_000", "0o17", "007"]),
).map(lambda token: (token, token))
# JSON's texts are YAML's, too, but for characters of eight digits.
QUOTED = st.one_of(STRINGS, st.sampled_from(["08", "1e-5", "true", "", "${sweep.p0}"])).map(
    lambda text: (exact({"x": text})[6:-1], text)
)


@settings(max_examples=25, deadline=None, suppress_health_check=list(HealthCheck))
@given(choices=st.lists(PLAIN | QUOTED, min_size=1, max_size=9))
def test_every_choice_arrives_as_typed(
    choices: list[tuple[str, str]], template: Any, torchrun: Path, tmp_path: Path
) -> None:
    """As words of argv, as variables, and within other texts."""
    document = load(_file([token for token, _ in choices]), "v.yaml")
    sweep = specs.parse("s", document.data["sweep"], document.token, document.where)
    chart = defaults("torchrun")
    bound = bind(sweep, chart).spec
    values = trial_values(bound, space.assignment(bound.parameters, 0), chart)
    file = tmp_path / "trial.yaml"
    file.write_text(dump(MINIMAL | values), encoding="utf-8")
    (pod,) = templates(by_name(template(torchrun, "--values", str(file)))).values()
    trainer = pod["spec"]["containers"][0]
    texts = [f"<{text}>" for _, text in choices]
    words = [word for index, (_, text) in enumerate(choices) for word in (f"--p{index}", text)]
    assert [*texts, *words] == [expand(arg) for arg in trainer["args"]][-3 * len(choices) :]
    env = {variable["name"]: variable.get("value", "") for variable in trainer["env"]}
    assert [text for _, text in choices] == [expand(env[f"P{i}"]) for i in range(len(choices))]


def _file(tokens: list[str]) -> str:
    """A values file with a parameter for each choice, which stands there as it is typed."""
    parameters = "".join(
        f"    p{at}:\n      arg: --p{at}\n      env: P{at}\n      values:\n      - {token}\n"
        for at, token in enumerate(tokens)
    )
    args = "".join(f"      - '<${{sweep.p{index}}}>'\n" for index in range(len(tokens)))
    return (
        f"sweep:\n  parameters:\n{parameters}"
        f"  trial:\n    workload: torchrun\n    values:\n      args:\n{args}"
    )
