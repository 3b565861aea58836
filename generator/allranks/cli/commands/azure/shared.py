"""What the commands of `allranks azure` share: options, login, questions, the table of a plan."""

from __future__ import annotations

import functools
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from allranks import names
from allranks.errors import EXIT_INTERRUPTED, InputError, InvalidValues, MissingToolError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from allranks.azure.actions import Plan
    from allranks.azure.engine import Engine
    from allranks.azure.pace import Pace
    from allranks.azure.ports import Arm
    from allranks.azure.settings import Subscription
    from allranks.cli.console import Console

COMMAND = f"{names.CLI} azure"
TIMEOUT = 5400.0  # seconds; a cluster takes ten minutes, and where Azure is busy an hour


def file_flag(about: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add -f; the command gets the path of an azure.yaml as `file`.

    Args:
        about: what the help says of the file.
    """
    return click.option(
        "-f",
        "--file",
        default="azure.yaml",
        show_default=True,
        metavar="FILE",
        type=click.Path(allow_dash=True),
        help=f"{about}; '-' is standard input.",
    )


def file_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f; the command gets the azure.yaml as `settings`."""

    @functools.wraps(function)
    def with_settings(*args: Any, **parameters: Any) -> Any:
        from allranks.azure import settings

        return function(*args, settings=settings.load(parameters.pop("file")), **parameters)

    return file_flag("What is to be there")(with_settings)


def subscription_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add -f, --subscription, --cloud and --login; the command gets `where`."""

    @functools.wraps(function)
    def with_subscription(*args: Any, **parameters: Any) -> Any:
        from allranks.azure import settings

        file, explicit = parameters.pop("file"), parameters.pop("subscription")
        cloud, login = parameters.pop("cloud"), parameters.pop("login")
        if file:
            return function(*args, where=settings.load(file).where, **parameters)
        where = settings.subscription(explicit, cloud, login)
        return function(*args, where=where, **parameters)

    command: Callable[..., Any] = with_subscription
    for option in (
        click.option(
            "--login",
            type=click.Choice(
                [
                    "auto",
                    "environment",
                    "workloadIdentity",
                    "managedIdentity",
                    "cli",
                    "deviceCode",
                ]
            ),
            default="auto",
            show_default=True,
            help="How to log in, as `login` of azure.yaml.",
        ),
        click.option(
            "--cloud",
            type=click.Choice(["public", "usGovernment", "china"]),
            default="public",
            show_default=True,
            help="Which Azure.",
        ),
        click.option(
            "--subscription",
            default="",
            metavar="ID",
            help="The subscription; without it AZURE_SUBSCRIPTION_ID.",
        ),
        click.option(
            "-f",
            "--file",
            default="",
            metavar="FILE",
            type=click.Path(allow_dash=True),
            help="Take the three from an azure.yaml.",
        ),
    ):
        command = option(command)
    return command


def yes_option(help_text: str) -> Callable[[Any], Any]:
    """Add --yes.

    Args:
        help_text: what is not asked then.
    """
    return click.option("-y", "--yes", is_flag=True, help=help_text)


def connect(where: Subscription, console: Console) -> tuple[Arm, Pace]:
    """Azure Resource Manager, patient with what it puts off, and how long to wait.

    Raises:
        MissingToolError: its SDKs are not installed.
    """
    try:
        from allranks.azure.sdk import arm
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "azure":
            raise
        raise MissingToolError(
            "this needs Azure's SDKs, which are not installed",
            hint="pip install 'allranks[azure]'",
        ) from error
    from allranks.azure import pace

    waits = pace.pace()
    return pace.patient(arm.connect(where), waits, console.note), waits


def refuse(plan: Plan) -> None:
    """Raise why a plan cannot be done, if it cannot."""
    if plan.refusals:
        raise InvalidValues(plan.refusals)


def confirm(console: Console, question: str, *, yes: bool) -> bool:
    """Whether it is to be done.

    Raises:
        InputError: nobody is there to be asked.
    """
    if yes:
        return True
    answer = console.confirm(question)
    if answer is None:
        raise InputError(
            "nothing was done: it costs money or removes data, and nobody is there to be asked",
            hint="add --yes",
        )
    return answer


@contextmanager
def working(console: Console, engine: Engine, again: str) -> Iterator[None]:
    """Show what is waited for; an interrupt says how to go on, and ends with 130."""
    try:
        with console.progress(lambda _: engine.line()):
            yield
    except KeyboardInterrupt:
        console.note(
            f"stopped here; what Azure has begun goes on. `{again}` goes on with it, and "
            f"`{COMMAND} down` removes it"
        )
        raise click.exceptions.Exit(EXIT_INTERRUPTED) from None


def show(console: Console, plan: Plan) -> None:
    """Write a plan as a table, with its notes."""
    from allranks.azure.actions import MARKS, Verb

    if plan.entries:
        console.table(
            ["", "KIND", "NAME", "ACTION", "DETAIL"],
            [
                (MARKS[entry.verb], entry.kind, entry.name, entry.verb, entry.detail)
                for entry in plan.entries
            ],
            wrap="DETAIL",
            whole=["NAME"],
        )
    for note in plan.notes:
        console.note(note)
    if plan.refusals:
        return
    counts = {verb: sum(entry.verb is verb for entry in plan.entries) for verb in Verb}
    words = [f"{count} to {verb}" for verb, count in counts.items() if count and verb != Verb.NONE]
    console.text(", ".join(words) if words else "all is there as it is to be")
