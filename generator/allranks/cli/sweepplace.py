"""Where a sweep's trials run, and which sweeps there are.

A sweep remembers its place in its journal, so that `resume` and `delete` find its releases without
the flags that `run` was given.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from allranks import names, trust
from allranks.cli.console import clean
from allranks.cli.target import CLUSTER, LOCAL, Target
from allranks.errors import AllranksError, InputError
from allranks.schema import suggest

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from allranks.cli.console import Console
    from allranks.cli.target import Site
    from allranks.helm.releases import Home
    from allranks.sweep.storage.journals import Keeper
    from allranks.sweep.trials.ports import Trials
    from allranks.sweep.values.prepare import Prepared


# What the place of a sweep says whose process is a pod.
INSIDE = "yes"


@dataclass(frozen=True, slots=True)
class Place:
    """Where trials run.

    Attributes:
        on: ``local`` or ``cluster``.
        namespace: of their releases.
        context: the kubeconfig context; "" is the current one.
        kubeconfig: the file that was named; "" where none was.
        helm: the helm that was named; "" where none was.
        workdir: where their programs start, on this machine.
        inside: `INSIDE` where a pod runs the sweep.
    """

    on: str
    namespace: str
    context: str = ""
    kubeconfig: str = ""
    helm: str = ""
    workdir: str = ""
    inside: str = ""

    def as_dict(self) -> dict[str, str]:
        """For the journal."""
        return {key: value for key, value in asdict(self).items() if value}

    def kept_inside(self) -> dict[str, str]:
        """For the journal of a sweep that a pod runs: nothing of it is this machine's."""
        return {"on": CLUSTER, "namespace": self.namespace, "inside": INSIDE}

    @classmethod
    def of(cls, kept: Mapping[str, str], helm: str | None = None, where: str = "") -> Place:
        """The place that a journal keeps.

        Who else can write the journal names no program here, and no kubeconfig of theirs, in which
        a program may stand as well.

        Args:
            kept: of `as_dict`.
            helm: one that is named now; it goes before the one that is kept.
            where: the journal; a sweep that a pod runs is where its journal is.

        Raises:
            InputError: the kubeconfig that it names is another user's, or not there.
        """
        from allranks.sweep.storage import journals  # noqa: PLC0415 - `--help` does not need it

        known = {key: str(value) for key, value in kept.items() if key in cls.__slots__}
        if not journals.is_own(where):
            known.pop("helm", None)
            config = known.get("kubeconfig", "")
            if config and not known.get("inside") and not trust.is_own_file(Path(config)):
                raise InputError(
                    f"the sweep's journal names the kubeconfig {clean(config)!r}, which is not a "
                    "file of yours alone",
                    hint="others may have written that journal: look at the file; if it is right, "
                    "make it yours and `chmod go-w` it",
                )
        if known.get("inside") and where:
            from allranks.sweep.storage.secretkeeper import Address  # noqa: PLC0415 - for these alone

            address = Address.parse(where)
            known |= {"context": address.context, "kubeconfig": address.kubeconfig}
        if known.get("helm") and shutil.which(known["helm"]) is None:
            del known["helm"]  # that of `helm sweep`, and gone since
        place = cls(**{"on": LOCAL, "namespace": "default", **known})
        return place if not helm else cls(**{**asdict(place), "helm": helm})

    def home(self, name: str) -> Home:
        """A release there, for helm.

        Raises:
            MissingToolError: there is no helm that works.
        """
        return self._site().home(name)

    def _site(self) -> Site:
        return Target(
            CLUSTER, self.namespace, self.context, self.kubeconfig, self.helm or None
        ).on_cluster()

    def trials(self, prepared: Prepared, journal: str = "", *, starts: bool = True) -> Trials:
        """What the trials of a sweep run on.

        Args:
            prepared: the sweep.
            journal: where it is kept; what gives access to that is not for programs run here.
            starts: whether some may be started; to end those of this machine takes no helm.

        Raises:
            AllranksError: the cluster does not answer, or there is no helm.
        """
        if self.on == LOCAL:
            from allranks.helm import locate  # noqa: PLC0415 - helm costs 0.2 s
            from allranks.sweep.storage import databaseurl  # noqa: PLC0415 - for these alone
            from allranks.sweep.trials import localtrials  # noqa: PLC0415 - one of the two

            workdir = Path(self.workdir or Path.cwd())
            binary = locate.find(self.helm or None) if starts else None
            home = localtrials.Home(self.namespace, workdir, binary, databaseurl.private(journal))
            return localtrials.LocalTrials(prepared, home)
        from allranks.sweep.trials.clustertrials import ClusterTrials  # noqa: PLC0415

        site = self._site()
        return ClusterTrials(prepared, site.cluster, site.home(prepared.spec.name))

    def refuse_others(self, prepared: Prepared) -> None:
        """Refuse where another sweep of this name has its releases.

        Raises:
            InputError: there is another.
            AllranksError: that cannot be seen.
        """
        from allranks.sweep import runner  # noqa: PLC0415 - `--help` does not need it

        trials = self.trials(prepared)
        try:
            runner.refuse_others(
                prepared.spec.name, trials, self.namespace, lambda: self._other_journal(prepared)
            )
        finally:
            trials.close()

    def _other_journal(self, prepared: Prepared) -> str:
        """The journal of another sweep of this name in the namespace; "" where none is seen."""
        from allranks.sweep.storage import secretkeeper  # noqa: PLC0415 - for these alone

        if self.on == LOCAL:
            return ""
        name = prepared.spec.name
        address = secretkeeper.Address(name, self.namespace, self.context, self.kubeconfig)
        kept = secretkeeper.SecretKeeper(address, name)
        with suppress(AllranksError):
            return "" if kept.read().owner == prepared.owner else kept.where
        return ""


def chosen(target: Target, console: Console, workdir: str | None, first_file: str) -> Place:
    """The place that a person named.

    Args:
        target: the flags.
        console: hears why this machine is meant where nobody said so.
        workdir: of ``--workdir``.
        first_file: the first values file; its folder is where programs start by default.

    Raises:
        InputError: the flags do not fit.
    """
    site = target.site(console)
    helm = target.helm or ""
    if site is None:
        return Place(LOCAL, target.local_namespace, helm=helm, workdir=_folder(workdir, first_file))
    if workdir is not None:
        raise InputError(
            "is for --on local: a pod starts in its image's folder",
            path="--workdir",
            hint="set workingDir in the values",
        )
    # Not where the current context leads later: `resume` must find these releases again.
    kubeconfig = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    named = str(Path(kubeconfig).absolute()) if kubeconfig and os.pathsep not in kubeconfig else ""
    return Place(CLUSTER, site.namespace, site.cluster.context, named, helm)


def _folder(asked: str | None, first_file: str) -> str:
    if asked is not None and not Path(asked).is_dir():
        raise InputError(f"{asked!r} is not a folder", path="--workdir", hint="name a folder")
    if asked is not None:
        return str(Path(asked).absolute())
    return str(Path(first_file).absolute().parent if first_file else Path.cwd())


def find(name: str, journal: str = "") -> Keeper:
    """Where a sweep is kept that is there.

    Args:
        name: the sweep's name; "" where only its journal is known.
        journal: what ``--journal`` was given; "" for nothing.

    Raises:
        InputError: there is no such sweep.
    """
    from allranks.sweep.storage import shelf  # noqa: PLC0415 - `--help` does not need it

    kept = shelf.locate(name, journal)
    if journal or kept.exists():
        return kept
    if shelf.is_known(kept) and not shelf.is_own(name, kept.where):
        raise InputError(
            f"the sweep {name} was kept in {kept.where}, and its journal is not there any more",
            hint=f"`{names.CLI} sweep delete {name}` removes what is left of it",
        )
    near = suggest.nearest(name, [one.name for one in shelf.every()])
    lists = f"`{names.CLI} sweep status` lists them"
    raise InputError(
        f"there is no sweep {name!r}", hint=f"did you mean {near}? {lists}" if near else lists
    )


def journal_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --journal."""

    def given(context: click.Context, option: click.Parameter, value: str) -> str:
        source = context.get_parameter_source(str(option.name))
        if not value and source is ParameterSource.COMMANDLINE:
            raise InputError(
                "is empty",
                path="--journal",
                hint="say where the sweep is kept, or leave it out; was it a variable of the "
                "shell that is not set?",
            )
        return value

    return click.option(
        "--journal",
        default="",
        metavar="WHERE",
        type=click.Path(),
        callback=given,
        help="Where the sweep is kept: a file, a database, such as sqlite:///sweeps.db or "
        "postgresql://user@host/database, or secret:NAMESPACE/NAME. Default: a file in the "
        "state folder, by the sweep's name.",
    )(function)


def journal_of(name: str, where: str) -> str:
    """What ``--journal`` is to be given for a sweep; "" where its name is enough.

    Args:
        name: the sweep's name.
        where: of its journal.
    """
    from allranks.sweep.storage import databaseurl, journals, shelf  # noqa: PLC0415 - for `--help`

    return "" if shelf.is_known(journals.keeper(where, name)) else databaseurl.shown(where)


def sweep_argument(*, required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add NAME, a sweep that is there; a shell completes it."""

    def given(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value == "":
            raise InputError(
                "the sweep's name is empty", hint=f"`{names.CLI} sweep status` lists them"
            )
        return value

    return click.argument("name", required=required, callback=given, shell_complete=complete)


def complete(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """The names of the sweeps, for the shell."""
    try:
        from allranks.sweep.storage import shelf  # noqa: PLC0415 - only while a shell completes

        found = [kept.name for kept in shelf.every()]
    except AllranksError:
        return []
    return [name for name in found if name.startswith(start)]
