"""What is typed for a sweep is what helm puts into its trials, whatever it looks like."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from allranks.helm import binary as helm_binary
from allranks.helm import driver
from allranks.sweep.model import Trial
from allranks.sweep.search import space
from allranks.sweep.spec import prepare
from allranks.values.sources import Sources
from allranks.yamlio import load
from tests.conftest import exact

if TYPE_CHECKING:
    from pathlib import Path

HEAD = """\
workload: sweep
image: {repository: my/trainer}
command: [python, train.py]
sweep:
  parameters:
"""
# Numbers as people write them, and words that YAML takes for something else.
NUMBERS = st.from_regex(r"[-+]?(0|[1-9][0-9]{0,8}|0[0-7]{1,4})(\.[0-9]{1,6})?(e[-+]?[0-9]{1,2})?",
                        fullmatch=True)  # fmt: skip
WORDS = st.sampled_from(
    [
        "true",
        "yes",
        "Off",
        "0x1F",
        "0o17",
        "1_000",
        ".5",
        "5.",
        "1e6",
        "0.10",
        "1e-5",
        "08",
        "12:30",
    ]
)
TEXTS = st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=12)


def scalar(text: str, *, quoted: bool) -> str:
    """A scalar in a flow list."""
    if not quoted:
        return text
    return exact(text)


def reached(folder: Path, helm: Any, text: str, ranges: tuple[str, ...] = ()) -> Any:
    """The words and the variables that the only trial's container is given."""
    file = folder / "sweep.yaml"
    file.write_text(text, "utf-8")
    flags = prepare.SweepFlags("s", Sources((str(file),)), ranges=ranges)
    prepared = prepare.prepare(flags)
    trial = Trial(0, "s-00000000", space.assignment(prepared.spec.parameters, 0))
    binary = helm_binary.inspect(helm.path)
    rendered = driver.template(binary, trial.name, "", prepared.chart, prepared.values(trial))
    (job,) = [
        document for document in load.load_all(rendered) if document and document["kind"] == "Job"
    ]
    (container,) = job["spec"]["template"]["spec"]["containers"]
    # The kubelet makes one dollar of two.
    args = [word.replace("$$", "$") for word in container["args"]]
    env = {
        variable["name"]: variable.get("value", "").replace("$$", "$")
        for variable in container["env"]
    }
    return args, env


@settings(
    max_examples=15, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None
)
@given(
    choices=st.lists(
        st.one_of(st.tuples(NUMBERS | WORDS, st.booleans()), st.tuples(TEXTS, st.just(True))),
        min_size=1,
        max_size=12,
    )
)
def test_choices_of_a_file_arrive_as_typed(
    tmp_path: Path, helm4: Any, choices: list[tuple[str, bool]]
) -> None:
    """Numbers, words and any text, with and without quotes, as an argument and as a variable."""
    lines = [
        f"    p{at}: {{values: [{scalar(text, quoted=quoted)}], arg: -p{at}, env: P{at}}}\n"
        for at, (text, quoted) in enumerate(choices)
    ]
    args, env = reached(tmp_path, helm4, HEAD + "".join(lines))
    for index, (text, _) in enumerate(choices):
        assert text == args[args.index(f"-p{index}") + 1]
        assert text == env[f"P{index}"]


@pytest.mark.parametrize(
    "text", ["1e-5", "0.10", "1e6", "true", "08", "a b", "$(HOME)", "{{ x }}", "${sweep.a}"]
)
def test_choices_of_a_flag_arrive_as_typed(tmp_path: Path, helm: Any, text: str) -> None:
    """With each major of helm."""
    body = HEAD.removesuffix("sweep:\n  parameters:\n")
    args, _ = reached(tmp_path, helm, body, (f"lr={text}",))
    assert ["--lr", text] == args[-2:]
