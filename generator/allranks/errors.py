"""The errors a user may meet, and what each one must say.

Every error that leaves a layer of ours is an `AllranksError`. It names the place (`path`: a values
path such as ``torchrun.port``, or ``file:line``), what is wrong (the message), and the nearest fix
(`hint`). The command line turns it into one readable block and into the exit code of its class;
a traceback never reaches a user.

Exit codes: 0 ok, 1 failed at run, 2 wrong input, 3 converted with a loss, 130 interrupted, 143
ended by SIGTERM.
"""

from __future__ import annotations

import errno
import os

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, NoReturn

EXIT_OK = 0
EXIT_FAILED = 1
EXIT_INPUT = 2
EXIT_LOST = 3  # of `allranks convert`: something is not carried
EXIT_INTERRUPTED = 130  # by Ctrl-C
EXIT_TERMINATED = 143  # by SIGTERM

# So many problems of one input are told; nobody reads more of them, and all cost time.
PROBLEMS_MAX = 100
# The message of a problem that stands for what was not looked at any more.
UNJUDGED = "is not judged any more"


FULL = (errno.ENOSPC, errno.EDQUOT)


def unwritable(number: int | None, folder: str, instead: str = "name another place") -> str:
    """The fix for a folder that cannot be written to.

    Args:
        number: why, as `OSError.errno` has it.
        folder: the folder.
        instead: how another one is named.
    """
    if number in FULL:
        return f"free some space where {folder} is, or {instead}"
    if number in (errno.EACCES, errno.EPERM):
        return f"get the right to write to {folder}, or {instead}"
    if number == errno.EROFS:
        return f"{folder} can only be read; {instead}"
    if number == errno.ENOENT and not os.path.isdir(folder):  # noqa: PTH112 - pathlib costs time
        return f"make the folder {folder}, or {instead}"
    return "use a shorter name" if number == errno.ENAMETOOLONG else instead


class Problem:
    """One thing wrong with the input.

    A frozen dataclass in all but name: importing ``dataclasses`` costs the post-renderer, which
    reads with this module and is started for every release, more than Python's own start.

    Attributes:
        path: where, as a values path (``torchrun.port``, ``args[2]``); "" for the whole.
        message: what was given and what is allowed, without the path and without a full stop.
        hint: the nearest fix, as an imperative; "" where there is none.
        source: ``file:line`` or ``--set …`` the value came from; "" where it is not known.
    """

    __slots__ = ("hint", "message", "path", "source")

    path: str
    message: str
    hint: str
    source: str

    def __init__(self, path: str, message: str, hint: str = "", source: str = "") -> None:
        for name, value in (
            ("path", path),
            ("message", message),
            ("hint", hint),
            ("source", source),
        ):
            object.__setattr__(self, name, value)

    def __setattr__(self, name: str, value: object) -> NoReturn:
        """Refuse: a problem is read-only."""
        raise AttributeError(f"Problem.{name} is read-only")

    def __reduce__(self) -> tuple[type[Problem], tuple[str, str, str, str]]:
        """How it is copied, and sent to another process."""
        return Problem, self._values()

    def __eq__(self, other: object) -> bool:
        """Equal problems are equal in every field."""
        return isinstance(other, Problem) and self._values() == other._values()

    def __hash__(self) -> int:
        """The hash of all fields."""
        return hash(self._values())

    def __repr__(self) -> str:
        """The problem as it would be written in Python."""
        return "Problem({!r}, {!r}, {!r}, {!r})".format(*self._values())

    def _values(self) -> tuple[str, str, str, str]:
        return self.path, self.message, self.hint, self.source

    def at(
        self,
        path: str | None = None,
        *,
        message: str | None = None,
        hint: str | None = None,
        source: str | None = None,
    ) -> Problem:
        """The same problem at another path, or with other words; None keeps a field."""
        return Problem(
            self.path if path is None else path,
            self.message if message is None else message,
            self.hint if hint is None else hint,
            self.source if source is None else source,
        )

    def __str__(self) -> str:
        """The whole problem, as a person reads it."""
        where = f"{self.path}: " if self.path else ""
        source = f" ({self.source})" if self.source else ""
        hint = f"\n  fix: {self.hint}" if self.hint else ""
        return f"{where}{self.message}{source}{hint}"

    def as_dict(self) -> dict[str, str]:
        """The problem as JSON-ready data, for ``-o json``."""
        return {
            "path": self.path,
            "message": self.message,
            "hint": self.hint,
            "source": self.source,
        }


class AllranksError(Exception):
    """The root of all errors of ours."""

    exit_code = EXIT_FAILED

    def __init__(self, message: str, *, path: str = "", hint: str = "", source: str = "") -> None:
        super().__init__(message)
        self.problem = Problem(path, message, hint, source)

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems; one unless the class collects several."""
        return (self.problem,)

    @property
    def more(self) -> int:
        """How many problems there are besides these."""
        return 0

    @property
    def is_cut(self) -> bool:
        """Whether there may be still more, which nobody has counted."""
        return False

    def __str__(self) -> str:
        """Every problem, one below the other."""
        return "\n".join(str(problem) for problem in self.problems)


class InputError(AllranksError):
    """Wrong input: nothing was sent and nothing was changed."""

    exit_code = EXIT_INPUT


class InvalidValues(InputError):  # noqa: N818 - named for what is wrong, like its siblings in use
    """The values have problems; all of them are carried at once."""

    def __init__(self, problems: list[Problem] | tuple[Problem, ...]) -> None:
        first = problems[0]
        super().__init__(first.message, path=first.path, hint=first.hint, source=first.source)
        self._problems = tuple(problems[:PROBLEMS_MAX])
        self._more = len(problems) - len(self._problems)
        self._is_cut = any(problem.message == UNJUDGED for problem in problems[PROBLEMS_MAX:])

    @property
    def problems(self) -> tuple[Problem, ...]:
        """The problems found, in the order of the values file: the first hundred of them."""
        return self._problems

    @property
    def more(self) -> int:
        """How many there are besides."""
        return self._more

    @property
    def is_cut(self) -> bool:
        """Whether there may be still more, which nobody has counted."""
        return self._is_cut


class CapacityError(InputError):
    """The request does not fit what is there; the hint names the largest that would."""


class RunError(AllranksError):
    """Something failed while running: a tool, a pod, the cluster."""


class ToolError(RunError):
    """A program we call (helm, kubectl) failed or is missing."""


class TemplateError(RunError):
    """A chart's template failed: it is wrong, or it was not given the values that it needs."""


class UnknownKindError(ToolError):
    """The cluster has no such kind of object, or has it no longer."""


class MissingToolError(InputError):
    """A program that was asked for is not there, or its version is not supported."""


class NameTakenError(InputError):
    """The name of an object to be made is taken by another release's."""


class ReleaseTakenError(NameTakenError):
    """There is a release of this name."""


# --- what an API server answers -------------------------------------------------------------------
#
# A person needs the sentence and its fix, a program needs to know how to go on; so each class is a
# way to go on. `allranks.cluster.errors` makes them of answers.


class ApiError(AllranksError):
    """A request that an API server did not carry out.

    Attributes:
        status: the HTTP status; 0 where no answer came.
        reason: the server's word for it, as `AlreadyExists`.
        detail: the server's own sentence; "" where it has none.
    """

    def __init__(
        self, message: str, *, status: int = 0, reason: str = "", detail: str = "", **place: str
    ) -> None:
        super().__init__(message, **place)
        self.status = status
        self.reason = reason
        self.detail = detail


class NotFoundError(ApiError, InputError):
    """A run, object, namespace or kind that was named is not there (404)."""


class ConflictError(ApiError, ToolError):
    """Somebody else has changed or made the object since it was read (409): read it again."""


class ExistsError(ConflictError):
    """There is an object of this name already (409, `AlreadyExists`)."""


class ExpiredError(ApiError, ToolError):
    """The server no longer knows the place of a list or a watch (410): begin anew."""


class QuotaError(ApiError, RunError):
    """A quota of the namespace is used up (403): try again when something has ended."""


class BusyError(ApiError, ToolError):
    """The server gives no verdict now (401, 429, 5xx, no answer): the same may succeed later.

    Attributes:
        retry_after: seconds that the server wants to be left alone; 0 where it does not say.
    """

    def __init__(self, message: str, *, retry_after: float = 0.0, **about: Any) -> None:
        super().__init__(message, **about)
        self.retry_after = retry_after


class TooLongError(ApiError, ToolError):
    """A page of a list is longer than is read: ask for fewer objects."""


class TooDeepError(ApiError, ToolError):
    """An answer is nested too deep; `allranks.cluster.outline` finds its parts."""


class RefusedError(ApiError, ToolError):
    """The server does not carry out the request as it is (4xx): asking again changes nothing."""


class ForbiddenError(RefusedError):
    """The API server does not let this user do it (403); the verb and the resource are named."""


class TerminatingError(ForbiddenError):
    """The namespace is being removed, takes nothing new, and goes with all that is in it (403)."""


class RejectedError(RefusedError):
    """The API server does not take an object as it is (400, 422).

    Attributes:
        causes: the fields at fault and what is said of each, as ``(field, message)``.
    """

    def __init__(
        self, message: str, *, causes: tuple[tuple[str, str], ...] = (), **about: Any
    ) -> None:
        super().__init__(message, **about)
        self.causes = causes
