"""Find the helm to run, and check its version.

Helm 4 is what we aim at. Helm 3 is supported from 3.18.5 on: that release settled on the schema
library that Helm 4 has too. Older ones either ignore JSON Schema draft 2020-12 or read it
differently, so they would let pass what `allranks validate` refuses.

The search ends at the first supported helm: PATH, then the pinned ones that `make setup` builds in
a checkout. A helm that a person named is never replaced by another one.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import names, resources
from allranks.errors import MissingToolError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

OLDEST = (3, 18, 5)
NEWEST_MAJOR = 4
SUPPORTED = "Helm 4, or Helm 3 from 3.18.5"

_VERSION = re.compile(r"^v?(\d+)\.(\d+)(?:\.(\d+))?(?:[-+].*)?$")
_TIMEOUT = 30.0
_INSTALL_HINT = "install Helm 4 and put it on PATH, or name one with --helm or " + names.ENV_HELM


@dataclass(frozen=True, slots=True)
class HelmBinary:
    """A helm binary and its version.

    Attributes:
        path: the program.
        version: what it says of itself, without the "v": "4.3.1".
        major: 3 or 4; another number only where `supported` is false.
        supported: whether allranks works with it.
    """

    path: Path
    version: str
    major: int
    supported: bool


def find(explicit: str | None = None, env: Mapping[str, str] | None = None) -> HelmBinary:
    """The helm to run.

    Args:
        explicit: the one a person named: a path, or a name on PATH.
        env: the environment; the process's own by default.

    Raises:
        MissingToolError: there is none, or none that is supported.
    """
    env = os.environ if env is None else env
    program = explicit or env.get(names.ENV_HELM, "")
    if program:
        origin = "--helm" if explicit else names.ENV_HELM
        binary = inspect(_find_named(program, origin, env))
        if not binary.supported:
            raise _unsupported_error(binary)
        return binary
    first: MissingToolError | None = None
    for path in _candidates(env):
        try:
            binary = inspect(path)
        except MissingToolError as error:
            first = first or error
            continue
        if binary.supported:
            return binary
        first = first or _unsupported_error(binary)
    raise first or MissingToolError("there is no helm on PATH", hint=_INSTALL_HINT)


def inspect(path: Path) -> HelmBinary:
    """Run a helm binary for its version, whatever that is.

    Raises:
        MissingToolError: the program does not start, or what it prints is no Helm version.
    """
    try:
        process = subprocess.run(  # noqa: S603 - the program is the one that was asked for
            [str(path), "version", "--template", "{{.Version}}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=_TIMEOUT,
            env=environment(os.environ),
        )
    except OSError as error:
        raise MissingToolError(
            f"{path} does not start: {error.strerror or error}", hint=_INSTALL_HINT
        ) from error
    except subprocess.TimeoutExpired as error:
        raise MissingToolError(
            f"{path} did not say its version in {_TIMEOUT:.0f} seconds", hint=_INSTALL_HINT
        ) from error
    text = process.stdout.decode("utf-8", "replace").strip()
    match = _VERSION.match(text)
    if process.returncode != 0 or match is None:
        text = text or process.stderr.decode("utf-8", "replace").strip()
        first = text.splitlines()[0] if text else f"nothing, with exit code {process.returncode}"
        raise MissingToolError(
            f"{path} is not a Helm we know: asked for its version it says {first!r}",
            hint=_INSTALL_HINT,
        )
    numbers = (int(match[1]), int(match[2]), int(match[3] or 0))
    return HelmBinary(
        path=path,
        version=text.removeprefix("v"),
        major=numbers[0],
        supported=numbers >= OLDEST and numbers[0] <= NEWEST_MAJOR,
    )


def environment(env: Mapping[str, str], *, plugins: bool = False) -> dict[str, str]:
    """The environment to call helm with.

    What a user may have set would reach our output: HELM_DEBUG adds text, and a plugin that this
    helm cannot read (a Helm 4 plugin under Helm 3) adds a warning to every command. Rendering
    needs no plugin, so helm is shown an empty plugin folder. HELM_KUBE* variables would lead helm
    to another cluster than the one that we talk to.
    """
    clean = {
        name: value
        for name, value in env.items()
        if name != "HELM_DEBUG" and not name.startswith("HELM_KUBE")
    }
    if not plugins:
        clean["HELM_PLUGINS"] = os.devnull
    return clean


def _find_named(text: str, origin: str, env: Mapping[str, str]) -> Path:
    executable = shutil.which(text, path=env.get("PATH", os.defpath))
    if executable is not None:
        return Path(executable).absolute()
    path = Path(text)
    if path.is_dir():
        reason = "is a folder"
    elif path.exists():
        reason = "is not executable"
    else:
        reason = "is not there" if os.sep in text else "is not on PATH"
    raise MissingToolError(f"{origin} names {text!r}, which {reason}", hint=_INSTALL_HINT)


def _candidates(env: Mapping[str, str]) -> Iterator[Path]:
    on_path = shutil.which("helm", path=env.get("PATH", os.defpath))
    if on_path is not None:
        yield Path(on_path).absolute()
    pinned = Path(resources.__file__).parents[2] / ".tools" / "helm"
    versions = {
        match.groups(default="0"): path
        for path in pinned.glob("*/helm")
        if (match := _VERSION.match(path.parent.name)) and os.access(path, os.X_OK)
    }
    for key in sorted(versions, key=lambda numbers: tuple(map(int, numbers)), reverse=True):
        yield versions[key]


def _unsupported_error(binary: HelmBinary) -> MissingToolError:
    return MissingToolError(
        f"{binary.path} is Helm {binary.version}, which is not supported ({SUPPORTED} is)",
        hint=_INSTALL_HINT,
    )
