"""pyhelm3's client on the helm that was found, with what pyhelm3 leaves open closed.

pyhelm3 (0.5) knows helm's commands and gives their JSON as objects. Around it:

- It starts helm through a shell string; ours is started by `allranks.helm.driver.Command`.
- It reads helm's version as strict SemVer, which a helm built by a plain `go install` does not
  print.
- `wait=True` would wait for the training to end (`--wait-for-jobs`), and `disable_validation=True`
  adds a flag letter by letter. Both are put right on the way out.
- It would make a namespace unasked.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pyhelm3
import pyhelm3.command
import pyhelm3.errors
import semver

from allranks.helm import driver

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.helm.locate import HelmBinary

_LETTERS = list("--disable-openapi-validation")


class Runner(pyhelm3.command.Command):  # type: ignore[misc] # pyhelm3 has no types
    """pyhelm3's commands, run by our driver."""

    def __init__(self, command: driver.Command) -> None:
        super().__init__(executable=str(command.binary.path))
        self._ours = command

    def client_version(self) -> semver.Version:
        """The version of the helm that was found, whatever form it prints it in."""
        return semver.Version.parse(self._ours.binary.version, optional_minor_and_patch=True)

    async def run(
        self,
        command: Sequence[Any],
        input: bytes | None = None,  # noqa: A002 - pyhelm3's name for it
    ) -> bytes:
        """Run helm; return its standard output.

        Raises:
            pyhelm3.errors.Error: helm failed; it carries the exit code and both outputs.
        """
        words = [str(word) for word in command if word != "--wait-for-jobs"]
        if words[-len(_LETTERS) :] == _LETTERS:
            words[-len(_LETTERS) :] = ["--disable-openapi-validation"]
        try:
            return await asyncio.to_thread(self._ours.run, words, input)
        except driver.HelmError as error:
            kind = pyhelm3.errors.ReleaseNotFoundError if error.no_release else pyhelm3.errors.Error
            raise kind(error.code, error.stdout, error.stderr) from error


class Client(pyhelm3.Client):  # type: ignore[misc] # pyhelm3 has no types
    """pyhelm3's client on the helm that was found; it never makes a namespace unasked."""

    def __init__(self, binary: HelmBinary) -> None:
        super().__init__(Runner(driver.Command(binary)), executable=str(binary.path))

    async def install_or_upgrade_release(self, *args: Any, **options: Any) -> Any:
        """As pyhelm3's, but `create_namespace` is off unless it is asked for."""
        options.setdefault("create_namespace", False)
        return await super().install_or_upgrade_release(*args, **options)
