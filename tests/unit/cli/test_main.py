"""The program's frame: the table of commands, and every way it can end."""

from __future__ import annotations

import errno
import importlib
import subprocess
import sys
from typing import TYPE_CHECKING

import click
import pytest

from allranks import errors
from allranks.cli import main
from allranks.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

HEAVY = ("jsonschema", "kubernetes", "psutil", "pyhelm3", "rich", "yaml")


@pytest.mark.parametrize("name", main.COMMANDS)
def test_the_table_of_commands_is_right(name: str) -> None:
    """Each entry leads to a command of that name, with the same line of help and an example."""
    command = main.LazyGroup().get_command(click.Context(main.cli), name)
    assert isinstance(command, click.Command)
    assert name == command.name
    assert main.COMMANDS[name].help == command.short_help
    assert "Example:" in (command.help or "")


def test_every_subcommand_has_an_example() -> None:
    """Groups inside the program hold to the same."""
    plugin = importlib.import_module("allranks.cli.commands.plugin").plugin_command
    assert all("Example:" in (command.help or "") for command in plugin.commands.values())


@pytest.mark.parametrize(
    ("arguments", "allowed"),
    [
        (["--help"], set()),
        (["init", "torchrun"], set()),
        (["completion", "bash"], set()),
        (["presets"], {"yaml", "rich"}),
        (["validate", "-f", "/nonexistent"], {"yaml", "jsonschema"}),
    ],
)
def test_a_command_imports_what_it_needs(arguments: list[str], allowed: set[str]) -> None:
    """Start-up stays short: no command pays for another's libraries."""
    code = (
        "import sys\nfrom allranks.cli.main import main\n"
        f"main({arguments!r})\nprint('LOADED', *sys.modules)"
    )
    process = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, check=True
    )
    loaded = set(process.stdout.rpartition("LOADED")[2].split())
    assert not (set(HEAVY) - allowed) & loaded


def raising(error: BaseException) -> Callable[..., None]:
    """A program that fails like this."""

    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [
        (InputError("no"), 2, "error: no\n"),
        (click.UsageError("Bad thing."), 2, "error: bad thing\n"),
        (KeyboardInterrupt(), 130, ""),
        (click.Abort(), 130, ""),
        (OSError(28, "No space left on device", "/x"), 1, "error: /x: No space left on device\n"),
        (ValueError("odd\nthing"), 1, "not in your input: ValueError: odd thing\n"),
    ],
)
def test_every_end_is_an_exit_code_and_a_line(
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    error: BaseException,
    code: int,
    says: str,
) -> None:
    """Whatever happens, a person sees a line, a script an exit code, and nobody a traceback."""
    monkeypatch.setattr(main.cli, "main", raising(error))
    assert code == main.main([])
    err = capsys.readouterr().err
    assert says in err
    assert "Traceback" not in err


def test_the_traceback_is_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """ALLRANKS_DEBUG=1 adds the traceback of an unexpected error."""
    monkeypatch.setattr(main.cli, "main", raising(ValueError("odd")))
    monkeypatch.setenv("ALLRANKS_DEBUG", "1")
    assert main.main([]) == 1
    assert "Traceback" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("called", "name"),
    [
        ("/x/allranks", "allranks"),
        ("kubectl-allranks", "kubectl allranks"),
        ("-c", "allranks"),
    ],
)
def test_the_programs_name(called: str, name: str) -> None:
    """Messages use the name that a person typed."""
    assert name == main.program(called)


def test_keys_that_are_explained_come_before_the_error_about_others(
    capsys: pytest.CaptureFixture[str],
) -> None:
    """What is right is answered, whatever else was asked."""
    keys = ("--explain", "gpus", "--explain", "nope")
    assert 2 == main.main(["values", "--set", "gpus=8,workload=torchrun", *keys])
    out, err = capsys.readouterr()
    assert out.startswith("gpus: 8\n")
    assert "nope: no source has such a key" in err


def test_no_folder_that_is_there_is_to_be_made() -> None:
    """What is wrong with the path is something else."""
    assert "name another place" == errors.unwritable(errno.ENOENT, "/")
    assert errors.unwritable(errno.ENOENT, "/no/where").startswith("make the folder")
