"""The command line is read in two ways, and both read the same."""

from __future__ import annotations

import subprocess
import sys

from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, arguments

VALUES = (
    "kueue",
    "volcano",
    "q",
    "3",
    "a=b",
    "a=",
    "=",
    "",
    "-x",
    "--rdma",
    "rdma/hca=1",
    "٣",
    "rack",
)
FLAGS = (
    *(*arguments.TEXTS, *arguments.NUMBERS, *arguments.LISTS, *arguments.PAIRS),
    *(*arguments.SWITCHES, "--unknown", "--dial", "-q", "extra", "--"),
)


@st.composite
def command_lines(draw: st.DrawFn) -> list[str]:
    """Flags with a value behind them, after an equals sign, or none at all."""
    words: list[str] = []
    for flag in draw(st.lists(st.sampled_from(FLAGS), max_size=4)):
        value = draw(st.sampled_from(VALUES))
        form = draw(st.sampled_from(("equals", "word", "alone")))
        words += {"equals": [f"{flag}={value}"], "word": [flag, value], "alone": [flag]}[form]
    return words


def read(argv: list[str]) -> PostrenderOptions | str:
    """The options, or the problem."""
    try:
        return arguments.parse(argv)
    except InputError as error:
        return str(error)


@given(argv=command_lines())
def test_both_readers_agree(argv: list[str]) -> None:
    """What the plain reader takes, argparse takes for the same; all else is argparse's."""
    plain = arguments._plain
    first = read(argv)
    try:
        arguments._plain = lambda _: None
        assert read(argv) == first
    finally:
        arguments._plain = plain


# What the manifests of most charts hold.
FOREIGN = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: train
  annotations: {version: "1", note: '{"a": 1}'}
spec:
  completions: 4
  template:
    spec:
      containers:
      - name: trainer
        image: x/y:1.10
        command: [sh, -c, "set -e\\ntrain\\n"]
        args: ["--lr=1e-5", "é", "", "y", true, null, 2026.1]
        resources: {limits: {cpu: 0.5, memory: 10Gi, ephemeral-storage: 500M, nvidia.com/gpu: 8}}
"""


def test_the_usual_run_imports_little() -> None:
    """What takes long to import stays away, also where a dialect is written."""
    heavy = (
        *("argparse", "dataclasses", "inspect", "typing", "shutil", "locale"),
        # For PyYAML, which reads with its C parser alone.
        *("re", "enum", "functools", "collections", "datetime", "base64", "struct", "json"),
    )
    code = (
        "import sys; from allranks.postrender.__main__ import main; "
        "code = main(['--dialect=kueue', '--queue', 'research']); "
        f"print([name for name in {heavy} if name in sys.modules], file=sys.stderr); sys.exit(code)"
    )
    process = subprocess.run(
        [sys.executable, "-I", "-c", code],
        input=FOREIGN,
        capture_output=True,
        encoding="utf-8",
        timeout=60,
        check=False,
    )

    assert (0, "[]\n") == (process.returncode, process.stderr)
    assert "kueue.x-k8s.io/queue-name: research" in process.stdout
