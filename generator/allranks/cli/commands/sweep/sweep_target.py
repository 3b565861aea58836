"""Where a sweep's trials run, and which sweeps there are.

The journal of a sweep has its place, so that `resume` and `delete` find its releases without the
flags of `run`.
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
from allranks.schema import suggestions

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from typing import Any

    from allranks.cli.console import Console
    from allranks.cli.target import ClusterTarget
    from allranks.cluster.interface import KubeClient
    from allranks.helm.releases import ReleaseRef
    from allranks.sweep.spec.prepare import PreparedSweep
    from allranks.sweep.storage.base import Backend
    from allranks.sweep.trials.base import TrialReleases


# The value of `SweepTarget.inside` for a sweep that a pod runs.
INSIDE = "yes"


@dataclass(frozen=True, slots=True)
class SweepTarget:
    """The place where a sweep's trials run: this machine, or a cluster and namespace.

    Attributes:
        on: ``local`` or ``cluster``.
        namespace: the namespace of their releases.
        context: the kubeconfig context; "" is the current one.
        kubeconfig: the file of --kubeconfig; "" for none.
        helm: the path of --helm; "" for none.
        workdir: the working folder of their programs, on this machine.
        inside: `INSIDE` if a pod runs the sweep.
    """

    on: str
    namespace: str
    context: str = ""
    kubeconfig: str = ""
    helm: str = ""
    workdir: str = ""
    inside: str = ""

    def as_dict(self) -> dict[str, str]:
        """Return the place as the journal stores it."""
        return {key: value for key, value in asdict(self).items() if value}

    def as_dict_inside(self) -> dict[str, str]:
        """Return the place of a sweep that a pod runs, without this machine's parts."""
        return {"on": CLUSTER, "namespace": self.namespace, "inside": INSIDE}

    @classmethod
    def of(cls, record: Mapping[str, str], helm: str | None = None, where: str = "") -> SweepTarget:
        """Return the place that a journal names.

        A journal that others can write may not name a program of this machine, nor a kubeconfig of
        theirs, which may name a program as well.

        Args:
            record: of `as_dict`.
            helm: the path of --helm, which wins over the journal's; None for none.
            where: the journal; a sweep that a pod runs is on the cluster of its journal.

        Raises:
            InputError: its kubeconfig is another user's, or does not exist.
        """
        from allranks.sweep.storage import catalog

        fields = {key: str(value) for key, value in record.items() if key in cls.__slots__}
        if not catalog.is_private(where):
            fields.pop("helm", None)
            config = fields.get("kubeconfig", "")
            if config and not fields.get("inside") and not trust.is_own_file(Path(config)):
                raise InputError(
                    f"the sweep's journal names the kubeconfig {clean(config)!r}, which is not a "
                    "file of yours alone",
                    hint="others may have written that journal: look at the file; if it is right, "
                    "make it yours and `chmod go-w` it",
                )
        if fields.get("inside") and where:
            from allranks.sweep.storage.secrets import Address

            address = Address.parse(where)
            fields |= {"context": address.context, "kubeconfig": address.kubeconfig}
        if fields.get("helm") and shutil.which(fields["helm"]) is None:
            del fields["helm"]  # that of `helm sweep`, and gone since
        place = cls(**{"on": LOCAL, "namespace": "default", **fields})
        return place if not helm else cls(**{**asdict(place), "helm": helm})

    def home(self, name: str) -> ReleaseRef:
        """Return the reference to a release there, for helm.

        Raises:
            MissingToolError: no helm works.
        """
        return self._site().home(name)

    def cluster(self) -> KubeClient:
        """Return the cluster."""
        return self._site().cluster

    def _site(self) -> ClusterTarget:
        return Target(
            CLUSTER, self.namespace, self.context, self.kubeconfig, self.helm or None
        ).on_cluster()

    def trials(
        self, prepared: PreparedSweep, journal: str = "", *, starts: bool = True
    ) -> TrialReleases:
        """Return the releases of a sweep's trials.

        Args:
            prepared: the sweep.
            journal: its journal, whose credentials are withheld from programs that run here.
            starts: whether trials may be started; stopping those of this machine needs no helm.

        Raises:
            AllranksError: the cluster does not answer, or there is no helm.
        """
        if self.on == LOCAL:
            from allranks.helm import binary as helm_binary
            from allranks.sweep.storage import database_url
            from allranks.sweep.trials import local

            workdir = Path(self.workdir or Path.cwd())
            binary = helm_binary.find(self.helm or None) if starts else None
            home = local.LocalTarget(self.namespace, workdir, binary, database_url.private(journal))
            return local.LocalTrials(prepared, home)
        from allranks.sweep.trials.cluster import ClusterTrials

        cluster_target = self._site()
        return ClusterTrials(
            prepared,
            cluster_target.cluster,
            cluster_target.home(prepared.spec.name),
            is_inside=self.inside == INSIDE,
        )

    def refuse_others(self, prepared: PreparedSweep) -> None:
        """Refuse to run if another sweep of this name has releases there, or is about to.

        Raises:
            InputError: there is another sweep.
            AllranksError: its releases cannot be listed.
        """
        from allranks.sweep import name_conflicts, runner

        trials = self.trials(prepared)
        name = prepared.spec.name
        try:
            runner.refuse_others(
                name, trials, self.namespace, lambda: self._other_journal(prepared)
            )
        finally:
            trials.close()
        # Between two of its trials, or before the first, a sweep has no release of a trial.
        if journal := self._other_journal(prepared, is_over=False):
            raise InputError(
                f"in namespace {self.namespace} another sweep of the name {name} is not over",
                hint=name_conflicts.way_out(name, journal),
            )

    def _other_journal(self, prepared: PreparedSweep, *, is_over: bool = True) -> str:
        """Return the journal of another sweep of this name in the namespace; "" for none.

        Args:
            prepared: the sweep of this name that is ours.
            is_over: also of one that has ended.
        """
        from allranks.sweep.storage import secrets
        from allranks.sweep.storage.journal import read_state

        if self.on == LOCAL:
            return ""
        name = prepared.spec.name
        address = secrets.Address(name, self.namespace, self.context, self.kubeconfig)
        store = secrets.SecretsBackend(address, name)
        with suppress(AllranksError):
            state = read_state(store)
            is_meant = state.owner != prepared.owner and (is_over or not state.outcome)
            return store.where if is_meant else ""
        return ""


def from_flags(
    target: Target, console: Console, workdir: str | None, first_file: str
) -> SweepTarget:
    """Return the place that the flags select.

    Args:
        target: the flags.
        console: gets a note if this machine is the target by default.
        workdir: of ``--workdir``.
        first_file: the first values file, whose folder is the default working folder.

    Raises:
        InputError: the flags do not fit.
    """
    cluster_target = target.cluster_target(console)
    helm = target.helm or ""
    if cluster_target is None:
        return SweepTarget(
            LOCAL, target.local_namespace, helm=helm, workdir=_folder(workdir, first_file)
        )
    if workdir is not None:
        raise InputError(
            "is for --on local: a pod starts in its image's folder",
            path="--workdir",
            hint="set workingDir in the values",
        )
    # Not where the current context leads later: `resume` must find these releases again.
    kubeconfig = target.kubeconfig or os.environ.get("KUBECONFIG", "")
    config_file = (
        str(Path(kubeconfig).absolute()) if kubeconfig and os.pathsep not in kubeconfig else ""
    )
    return SweepTarget(
        CLUSTER, cluster_target.namespace, cluster_target.cluster.context, config_file, helm
    )


def _folder(workdir: str | None, first_file: str) -> str:
    if workdir is not None and not Path(workdir).is_dir():
        raise InputError(f"{workdir!r} is not a folder", path="--workdir", hint="name a folder")
    if workdir is not None:
        return str(Path(workdir).absolute())
    return str(Path(first_file).absolute().parent if first_file else Path.cwd())


def find(name: str, journal: str = "") -> Backend:
    """Return the store of an existing sweep.

    Args:
        name: the sweep's name; "" where only its journal is known.
        journal: the value of ``--journal``; "" for none.

    Raises:
        InputError: there is no such sweep.
    """
    from allranks.sweep.storage import catalog

    store = catalog.locate(name, journal)
    if journal or store.exists():
        return store
    if catalog.is_registered(store) and not catalog.is_default(name, store.where):
        raise InputError(
            f"the sweep {name} was kept in {store.where}, and its journal is not there any more",
            hint=f"`{names.CLI} sweep delete {name}` removes what is left of it",
        )
    near = suggestions.nearest(name, [sweep.name for sweep in catalog.backends()])
    lists = f"`{names.CLI} sweep status` lists them"
    raise InputError(
        f"there is no sweep {name!r}", hint=f"did you mean {near}? {lists}" if near else lists
    )


def journal_option(function: Callable[..., Any]) -> Callable[..., Any]:
    """Add --journal."""

    def check_value(context: click.Context, option: click.Parameter, value: str) -> str:
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
        callback=check_value,
        help="Where the sweep is kept: a file, a database, such as sqlite:///sweeps.db or "
        "postgresql://user@host/database, or secret:NAMESPACE/NAME. Default: a file in the "
        "state folder, by the sweep's name.",
    )(function)


def journal_of(name: str, where: str) -> str:
    """Return the value of ``--journal`` for a sweep; "" if its name is enough.

    Args:
        name: the sweep's name.
        where: the address of its journal.
    """
    from allranks.sweep.storage import catalog, database_url

    return (
        "" if catalog.is_registered(catalog.backend_of(where, name)) else database_url.show(where)
    )


def sweep_argument(*, required: bool = True) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add NAME, an existing sweep, with shell completion."""

    def check_value(_: click.Context, __: click.Parameter, value: str | None) -> str | None:
        if value == "":
            raise InputError(
                "the sweep's name is empty", hint=f"`{names.CLI} sweep status` lists them"
            )
        return value

    return click.argument("name", required=required, callback=check_value, shell_complete=complete)


def complete(_: click.Context, __: click.Parameter, start: str) -> list[str]:
    """Return the names of sweeps, for shell completion."""
    try:
        from allranks.sweep.storage import catalog

        sweeps = [store.name for store in catalog.backends()]
    except AllranksError:
        return []
    return [name for name in sweeps if name.startswith(start)]
