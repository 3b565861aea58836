"""`allranks azure upload`: a folder into a file share or a blob container."""

from __future__ import annotations

import threading
import time
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

import click

from allranks.cli import options
from allranks.cli.commands.azure import shared
from allranks.errors import EXIT_FAILED, AllranksError, ForbiddenError, MissingToolError
from allranks.humanize import list_some, plural

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.azure.settings import Settings
    from allranks.azure.tree import Extent
    from allranks.azure.upload import Destination, Room, Store, UnsentFile, UploadProgress
    from allranks.cli.console import Console

_SHOWN = 20
# A login that Azure takes, without a role on the data.
_NO_ROLE = "AuthorizationPermissionMismatch"
_BAR = 24


@click.command("upload", short_help="Send a folder to a file share, or to blobs.")
@click.argument("source", metavar="SOURCE", type=click.Path())
@click.argument("destination", metavar="DESTINATION")
@shared.file_flag("Whose storage account it is")
@click.option(
    "--account",
    default="",
    metavar="NAME",
    help="A storage account of your own, in place of azure.yaml's.",
)
@click.option(
    "--parallel",
    type=click.IntRange(1, 128),
    default=16,
    show_default=True,
    metavar="N",
    help="How many requests are under way at once.",
)
@options.output_option("text", "json")
@options.pass_console
def upload_command(
    console: Console,
    /,
    *,
    source: str,
    destination: str,
    file: str,
    account: str,
    parallel: int,
    output: str,
) -> None:
    """Send what is in folder SOURCE, or a file, to share:NAME/FOLDER or blob:CONTAINER/FOLDER.

    What is there with the same content (MD5) is not sent again: an upload that was stopped anywhere
    goes on when the same command is given. Azure holds each part against its MD5. All names are
    checked before anything is sent. Links to files in the folder are sent as the files, links to
    folders in it are left out, and links that lead out are refused. A file that is changed
    meanwhile is named, and the exit code is 1. Nothing is ever removed at the destination.

    Who asks is who azure.yaml says, with the role "Storage Blob Data Contributor" for blobs and
    "Storage File Data Privileged Contributor" for shares; else by the key of azure.yaml's account,
    if they may read that; or AZURE_STORAGE_CONNECTION_STRING.

    \b
    Example:
      allranks azure upload data/ share:datasets/mnist
      allranks azure upload data/ blob:datasets/mnist --account trainingdata
    """
    from allranks.azure import transfer, upload
    from allranks.azure.tree import UploadSource

    target = upload.parse(destination)
    settings = _settings(file, account)
    tree = UploadSource(source)
    extent = tree.check(target)
    stop = threading.Event()
    progress = upload.UploadProgress()
    with _connected(console, target, account, settings, stop) as (store, room):
        transfer.check_room(room, extent.size, target)
        started = time.monotonic()
        with console.progress(lambda row: _line(progress, extent, time.monotonic() - started, row)):
            failures = transfer.Transfer(
                store, tree, target, progress, workers=parallel, stop=stop
            ).run()
    _tell(console, target, extent, progress, failures, output=output)
    if failures:
        raise click.exceptions.Exit(EXIT_FAILED)


def _settings(file: str, account: str) -> Settings | None:
    """The azure.yaml; None where an account is named, or a connection string, and there is none."""
    import os
    from pathlib import Path

    from allranks.azure import settings

    account_name = account or os.environ.get("AZURE_STORAGE_CONNECTION_STRING")
    if account_name and file == settings.FILE and not Path(file).exists():
        return None
    return settings.load(file)


@contextmanager
def needing_sdks() -> Iterator[None]:
    """Within the block, SDKs of Azure that are missing are an error of ours.

    Raises:
        MissingToolError: they are not installed.
    """
    try:
        yield
    except ImportError as error:
        if (error.name or "").partition(".")[0] != "azure":
            raise
        raise MissingToolError(
            "this needs Azure's SDKs, which are not installed",
            hint="pip install 'allranks[azure]'",
        ) from error


@contextmanager
def _connected(
    console: Console,
    destination: Destination,
    account: str,
    settings: Settings | None,
    stop: threading.Event,
) -> Iterator[tuple[Store, Room | None]]:
    """Within the block, the store, which is there and may be written to, with its room.

    Raises:
        ForbiddenError: neither the role is there nor the right to read the account's key.
    """
    with needing_sdks():
        from allranks.azure.sdk import stores
    own = settings.account if settings else ""
    store: Store = stores.connect(
        destination,
        account or own,
        cloud=settings.cloud if settings else "public",
        way=settings.login if settings else "auto",
        stop=stop,
    )
    with ExitStack() as connected:
        connected.callback(store.close)
        try:
            room = store.check()
        except ForbiddenError as error:
            if settings is None or account not in ("", own) or error.reason != _NO_ROLE:
                raise
            try:
                store = stores.connect_by_key(
                    destination, own, group=settings.group, where=settings.where, stop=stop
                )
            except AllranksError:
                raise error from None
            connected.callback(store.close)
            console.note(
                f"no role of yours is about the data of {own}: its key, which you may read, is used"
            )
            room = store.check()
        yield store, room


def _line(progress: UploadProgress, extent: Extent, seconds: float, room: int) -> str:
    """A bar with what is done of it, and how long the rest will take."""
    from allranks.service.workspace import size

    share = progress.size / extent.size if extent.size else progress.files / max(1, extent.files)
    share = min(1.0, share)
    filled = round(share * _BAR)
    bar = f"[{'#' * filled}{'-' * (_BAR - filled)}] {share:4.0%}"
    text = (
        f"{progress.files:,} of {plural(extent.files, 'file')}, "
        f"{size(progress.size)} of {size(extent.size)}"
    )
    time_left = _time_left(progress, extent, seconds)
    whole = f"{bar} {text}{time_left}"
    return whole if len(whole) <= room else f"{share:4.0%} {text}"[:room]


def _time_left(progress: UploadProgress, extent: Extent, seconds: float) -> str:
    """The time left in words, by the files or by the bytes, whichever are slower."""
    shares = [progress.files / max(1, extent.files), progress.size / max(1, extent.size)]
    least = min(shares)
    if least <= 0 or least >= 1:
        return ""
    rest = seconds * (1 - least) / least
    return f", {rest:.0f} s left" if rest < 100 else f", {rest / 60:.0f} min left"  # noqa: PLR2004


def _tell(
    console: Console,
    destination: Destination,
    extent: Extent,
    progress: UploadProgress,
    failures: list[UnsentFile],
    *,
    output: str,
) -> None:
    if output == "json":
        console.json(
            {
                "ok": not failures,
                "destination": str(destination),
                "sent": progress.sent,
                "sentBytes": progress.sent_size,
                "unchanged": progress.unchanged,
                "leftOut": extent.folder_links,
                "failed": [
                    {"file": failure.name, "message": failure.problem.message}
                    for failure in failures
                ],
            }
        )
        return
    if extent.folder_links:
        console.note(
            f"left out {plural(len(extent.folder_links), 'link')} to folders, whose files are sent "
            f"by their own names: {list_some(extent.folder_links)}"
        )
    from allranks.service.workspace import size

    words = [f"sent {plural(progress.sent, 'file')} ({size(progress.sent_size)})"]
    if progress.unchanged:
        words.append(f"{progress.unchanged:,} were there already")
    console.text(f"{', '.join(words)}: {destination}")
    for failure in failures[:_SHOWN]:
        console.problem(failure.problem.at(failure.name))
    if len(failures) > _SHOWN:
        console.note(f"and {len(failures) - _SHOWN:,} more files were not sent")
