"""What `allranks sbatch` takes and `convert` does not: a script that is submitted at once."""

from __future__ import annotations

import io
import sys
from typing import TYPE_CHECKING

import pytest

from allranks.errors import InputError
from allranks.service import convert

if TYPE_CHECKING:
    from pathlib import Path

_SCRIPT = "#!/bin/bash\n#SBATCH -n 1\npython a.py\n"


@pytest.mark.parametrize(
    ("words", "name"), [((), "job.sbatch"), (("-J", "big"), "big"), (("-Ja_b",), "a_b")]
)
def test_ranks_have_the_name_that_slurm_gives_the_job(
    words: tuple[str, ...], name: str, tmp_path: Path
) -> None:
    """A submitted release has a suffix, and a program reads the name without a word of it here."""
    (tmp_path / "job.sbatch").write_text(_SCRIPT)
    conversion = convert.script(str(tmp_path / "job.sbatch"), words)
    assert conversion.values["env"] == {"SLURM_JOB_NAME": name}


def test_a_script_from_standard_input_is_called_sbatch(monkeypatch: pytest.MonkeyPatch) -> None:
    """So says the manual of sbatch of such a job."""
    monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(_SCRIPT.encode())))
    conversion = convert.script("-")
    assert ("sbatch", "sbatch") == (conversion.name, conversion.values["env"]["SLURM_JOB_NAME"])


@pytest.mark.parametrize("words", [("-n1", "--wrap", "python a.py"), ("-n1", "--wrap=python a.py")])
def test_a_wrapped_command_is_a_script_called_wrap(words: tuple[str, ...]) -> None:
    """It needs no file."""
    conversion = convert.script("", words)
    assert ("wrap", "wrap") == (conversion.name, conversion.values["env"]["SLURM_JOB_NAME"])
    assert "python a.py" in str(conversion.values)


@pytest.mark.parametrize("text", ["kind: Job\n", "#SBATCH -n 1\npython a.py\n"])
def test_a_file_that_sbatch_refuses_is_refused(text: str, tmp_path: Path) -> None:
    """Sbatch takes no file whose first line does not begin with #!."""
    (tmp_path / "job").write_text(text)
    with pytest.raises(InputError, match=r"does not begin with #!") as refused:
        convert.script(str(tmp_path / "job"))
    assert "#!/bin/bash" in refused.value.problem.hint
    (tmp_path / "job").write_bytes(b"\xef\xbb\xbf" + _SCRIPT.encode())
    assert convert.script(str(tmp_path / "job")).name == "job"
