"""What a script sets for its shell (`set -euo pipefail`, `bash -eu`) holds in the ranks', too."""

from __future__ import annotations

import pytest

from allranks.convert.programs import commands

_SOURCED = "source x\nrm -rf $OUT/tmp\ntorchrun t.py"
_IN_RANK = "source x\nrm -rf $OUT/tmp\nexec python3 -u t.py"
SWITCHES = [
    (["bash", "-c", f"set -euo pipefail\n{_SOURCED}"], f"set -euo pipefail\n{_IN_RANK}"),
    (["bash", "-euxc", _SOURCED], _IN_RANK),
    (["bash", "-euo", "pipefail", "-c", _SOURCED], _IN_RANK),
    (["bash", "-euc", f"set +u; {_SOURCED}"], f"set +u\n{_IN_RANK}"),
    (["bash", "-c", f"cd /a\n{_SOURCED}"], _IN_RANK),
    (["bash", "-c", f"set -u && cd /a && {_SOURCED}"], f"set -u\n{_IN_RANK}"),
    (["bash", "-c", f"source y; set -u\n{_SOURCED}"], f"source y; set -u\n{_IN_RANK}"),
    (["bash", "-lec", _SOURCED], _IN_RANK),
    (["tini", "--", "bash", "-euc", _SOURCED], _IN_RANK),
    (["/bin/sh", "-euxc", "torchrun t.py $X"], "exec python3 -u t.py $X"),
    (["bash", "-c", "set -eu\ntorchrun t.py $X"], "set -u\nexec python3 -u t.py $X"),
    (["bash", "-uc", "set +u\ntorchrun t.py $X"], "set +u\nexec python3 -u t.py $X"),
]


@pytest.mark.parametrize(("words", "text"), SWITCHES)
def test_a_shell_in_each_rank_has_the_switches_that_were_typed(words: list[str], text: str) -> None:
    """With `-u` a script ends at an unset variable, before it removes the folder above."""
    own = words[words.index("--") + 1 : -1] if "--" in words else words[:-1]
    assert [*own, text] == list(commands.read(words).command)


def test_a_setup_that_exports_says_what_it_does_not_end_at() -> None:
    """It runs in the chart's own shell, which has neither -u nor pipefail."""
    text = "set -euo pipefail\npip list | tee $X\nexport A=1\ntorchrun t.py"
    program = commands.read(["bash", "-c", text])
    assert program.setup == "pip list | tee $X\nexport A=1\n"
    why = "setup does not end at an unset variable, nor at what fails within a pipe"
    assert why == program.changes[-1]
