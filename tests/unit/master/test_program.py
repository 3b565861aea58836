"""The program `allranks-master`, as a person meets it."""

from __future__ import annotations

import pytest

from allranks import names
from allranks_operator.master.__main__ import main


def test_help_is_help(capsys: pytest.CaptureFixture[str]) -> None:
    """What it is for, and every variable that it reads; whatever is set."""
    with pytest.raises(SystemExit) as excinfo:
        main(["--help"])
    assert 0 == excinfo.value.code
    output = capsys.readouterr()
    assert output.out.startswith("usage: allranks-master")
    assert "" == output.err
    variables = (names.ENV_NAMESPACE, names.ENV_JOB, names.ENV_MASTER_PORT)
    for name in (*variables, names.ENV_MASTER_OPTIONS, names.ENV_MASTER_FOLDER):
        assert name in output.out


def test_a_flag_that_there_is_not_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    """It is named, with the usage."""
    with pytest.raises(SystemExit) as excinfo:
        main(["--port", "1"])
    assert 2 == excinfo.value.code
    assert "unrecognized arguments: --port 1" in capsys.readouterr().err
