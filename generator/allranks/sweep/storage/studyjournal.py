"""A study that is open for writing, as the journal of the sweep that runs.

The records are the truth. Each `append` is one transaction, in which the writer also shows that the
lease is still its own, and brings the study's trials up to date (`mirror`). So there is no moment
at which a writer could be killed and leave half of it behind; and of one that was thought dead and
is not, nothing is taken any more.
"""

from __future__ import annotations

import shlex
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import AllranksError, RunError
from allranks.sweep.storage import lease as leases
from allranks.sweep.storage import lines, rows
from allranks.sweep.storage.database import AwayError, Database
from allranks.sweep.storage.lease import Lease
from allranks.sweep.storage.mirror import Mirror
from allranks.sweep.storage.opened import Closing

if TYPE_CHECKING:
    from typing import Self

    from sqlalchemy.orm import Session

    from allranks.sweep.records import Record
    from allranks.sweep.state import SweepState

# So long a database may be away before a runner gives up, in seconds, and the pause between tries.
PATIENCE = 60.0
PAUSE = 0.25


class StudyJournal(Closing):
    """A study that is open for writing; see `journals.Journal`."""

    def __init__(
        self, database: Database, study: int, state: SweepState, pieces: int, lease: Lease
    ) -> None:
        """Go on behind what was read; the lease is this writer's already."""
        self.state = state
        self._database = database
        self._study = study
        self._pieces = pieces
        self._lease = lease
        self._mirror = Mirror(study, state.spec)
        self._broken = False
        # Why no more is written, where another process has the sweep.
        self._lost: RunError | None = None
        self._closed = threading.Event()
        # One at a time: the runner, and the thread that renews the lease.
        self._turn = threading.Lock()
        self._renewer = threading.Thread(target=self._renew, name="lease", daemon=True)

    @property
    def where(self) -> str:
        """The database's URL."""
        return self._database.url

    def begun(self) -> Self:
        """Bring the study's trials up to date, and begin to renew the lease."""
        with self._database.session() as session:
            self._prove(session)
            self._mirror.remake(session, self.state)
        self._renewer.start()
        return self

    def append(self, *written: Record) -> None:
        """Write records, and the trials as they are now, in one transaction."""
        if not written:
            return
        if self._lost is not None:
            raise self._lost
        if self._broken:
            raise RunError(f"the journal {self._database.shown} cannot be written any more")
        self._broken = True
        text = b"".join(map(lines.line, written)).decode("ascii")
        for record in written:
            self.state.apply(record)
        if any(record["t"] == "resume" for record in written):
            changed = list(self.state.trials)
        else:
            changed = [record["n"] for record in written if "n" in record]
        pieces = rows.cut(text)
        with self._turn:
            self._persist(pieces, changed)
        self._pieces += len(pieces)
        self._broken = False

    def take_request(self) -> str:
        """Why the sweep was asked to end since the last call; "" where it was not, or not seen."""
        try:
            with self._turn, self._database.session() as session:
                found = rows.find(session, self._study, rows.REQUEST)
                if found is None:
                    return ""
                self._prove(session)  # else it is for another process
                why = rows.text_of(found.value_json, self._database.shown)
                session.delete(found)
        except AwayError:
            return ""  # It is still there when the database is.
        return why.strip() or "it was asked to end"

    def close(self) -> None:
        """Give the lease back."""
        if self._closed.is_set():
            return
        self._closed.set()
        if self._renewer.is_alive():
            self._renewer.join()
        # Where the database is away, the lease ends by itself.
        with suppress(AllranksError), self._turn, self._database.session() as session:
            self._prove(session).value_json = Lease().text()
        self._database.close()

    def _persist(self, pieces: list[str], changed: list[int]) -> None:
        """Write; where the database is away, wait for it.

        Raises:
            RunError: it stays away, refuses, or another process has taken the sweep over.
        """
        give_up = time.monotonic() + PATIENCE
        first = True
        while True:
            try:
                with self._database.session() as session:
                    self._prove(session)
                    # Its answer to the last try may have been lost on the way.
                    if first or rows.find(session, self._study, rows.key_of(self._pieces)) is None:
                        rows.add_pieces(session, self._study, self._pieces, pieces)
                    if first:
                        self._mirror.write(session, self.state, changed)
                    else:
                        self._mirror = Mirror(self._study, self.state.spec)
                        self._mirror.remake(session, self.state)
            except AwayError:
                first = False
                if time.monotonic() > give_up:
                    raise
                time.sleep(PAUSE)
            else:
                return

    def _prove(self, session: Session) -> Any:
        """Renew the lease within a transaction, which nobody else can do at the same time.

        Raises:
            RunError: it is another one's by now.
        """
        row = rows.find(session, self._study, rows.LEASE, lock=True)
        held = Lease.parse(None if row is None else row.value_json)
        if row is None or held.holder != self._lease.holder:
            self._lost = self._taken_by(None if row is None else held)
            raise self._lost
        row.value_json = self._lease.renewed(self._database.now(session)).text()
        session.flush()
        return row

    def _taken_by(self, held: Lease | None) -> RunError:
        """That another process has the sweep, had it, or has removed it; and what to do."""
        name = self.state.spec.name
        if held is None:
            return RunError(
                f"the sweep {name} was removed from {self._database.shown} while it was run",
                hint="trials that run have their releases still: `helm list -l "
                f"{names.SWEEP}={name}`",
            )
        of = shlex.join((name, "--journal", self._database.shown))
        if not held.holder:
            return RunError(
                f"another process had taken the sweep {name} over meanwhile, and has ended; this "
                "one writes nothing more",
                hint=f"see how far it is with `{names.CLI} sweep status {of}`, and go on with "
                f"`{names.CLI} sweep resume {of}`",
            )
        return RunError(
            f"{held} has taken the sweep {name} over, as this process was silent for more than "
            f"{leases.SECONDS:.0f} s; this one writes nothing more",
            hint=f"that one goes on with it, and no trial is lost: watch it with `{names.CLI} "
            f"sweep status {of}`; to run it here again, end that one and then `{names.CLI} sweep "
            f"resume {of}`",
        )

    def _renew(self) -> None:
        while self._lost is None and not self._closed.wait(leases.RENEWED_EVERY):
            # Whoever writes next says so where it is lost.
            with suppress(AllranksError), self._turn, self._database.session() as session:
                self._prove(session)
