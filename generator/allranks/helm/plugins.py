"""Install our helm plugins: the post-renderer and `helm sweep`.

`helm sweep` is a plugin of both majors, each with a tree of its own. The post-renderer is not: Helm
4 takes a post-renderer as a plugin of type postrenderer/v1, by name. Its own `helm plugin
install` links the folder and cannot know which Python has allranks, so we copy the tree into
helm's plugin folder ourselves and write the interpreter's path beside it. The copy is complete
before it takes the old one's place; installing again replaces it.

Helm 3 takes an executable, and its plugin folder must not hold ours: it cannot read the file of a
Helm 4 plugin and then loads no plugin at all. There `install` only says which executable to name.
For the same reason the two majors must not share a plugin folder, and what one of them has there is
not joined or replaced by what the other would need.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from allranks import names, resources, trust
from allranks.errors import InputError, MissingToolError, RunError, unwritable
from allranks.helm.binary import environment

if TYPE_CHECKING:
    from collections.abc import Iterator

    from allranks.helm.binary import HelmBinary

INTERPRETER = "python"  # in the plugin's folder: the path of the Python that has allranks
HELM_WITH_PLUGINS = 4
_VERSION = re.compile(r"^version: *[\"']?([^\"'\s]+)", re.MULTILINE)
_NAME = re.compile(r"^name: *\"?([^\"\s]+)\"? *$", re.MULTILINE)
_NEW_FORM = re.compile(r"^apiVersion: ", re.MULTILINE)  # of Helm 4's plugin.yaml
_OURS = "allranks"
_COMPLETION = "plugin.complete"
_TIMEOUT = 30


@dataclass(frozen=True, slots=True)
class Plugin:
    """An installed plugin of ours.

    Attributes:
        name: as helm knows it.
        version: from its plugin.yaml.
        path: its folder.
        interpreter: the Python it starts; "" where the folder does not say.
        works: whether that Python is still there.
    """

    name: str
    version: str
    path: Path
    interpreter: str
    works: bool


def names_of(binary: HelmBinary) -> tuple[str, ...]:
    """The plugins that a helm version supports."""
    if binary.major < HELM_WITH_PLUGINS:
        return (names.SWEEP_PLUGIN,)
    return (names.POSTRENDER, names.SWEEP_PLUGIN)


def install(binary: HelmBinary, name: str = names.POSTRENDER) -> Path:
    """Install our post-renderer, or `helm sweep`, as a plugin.

    Args:
        binary: the helm.
        name: which of the two.

    Returns:
        The plugin's folder; of the post-renderer for Helm 3 the executable to name after
        --post-renderer.

    Raises:
        InputError: the folder holds our plugins for the other major, or others may write to it.
        RunError: helm's plugin folder cannot be written to.
        MissingToolError: this installation has no executable to name.
    """
    if name not in names_of(binary):
        return executable()
    tree = "helm4" if binary.major >= HELM_WITH_PLUGINS else "helm3"
    source = resources.folder("plugins") / tree / name
    target = folder(binary) / name
    _refuse_foreign(target)
    _refuse_other_major(target.parent, binary)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        _refuse_shared(target.parent)
        with tempfile.TemporaryDirectory(prefix=".allranks-", dir=target.parent) as scratch:
            fresh = Path(scratch) / name
            shutil.copytree(source, fresh, symlinks=False)
            (fresh / INTERPRETER).write_text(f"{sys.executable}\n", "utf-8")
            for program in fresh.glob(_COMPLETION):
                program.chmod(0o755)  # Helm starts it as it is, and an archive may lose the bit.
            _remove(target)
            fresh.rename(target)
    except OSError as error:
        number = _number(error)
        raise RunError(
            f"the plugin cannot be installed: {os.strerror(number) if number else error}",
            path=str(target),
            hint=unwritable(number, str(target.parent), "set HELM_PLUGINS to another folder"),
        ) from error
    return target


def _number(error: OSError) -> int:
    """The errno of a failed write, of its first file for a tree; 0 where unknown."""
    if not isinstance(error, shutil.Error):
        return error.errno or 0
    number = re.search(r"\[Errno ([0-9]+)\]", str(error))  # it has no more than the texts
    return int(number[1]) if number else 0


@contextmanager
def own_folder() -> Iterator[Path]:
    """A plugin folder with our post-renderer alone, for one call of Helm 4.

    So a release that needs it is installed without a plugin of the user's being added, replaced or
    asked for.

    Raises:
        RunError: no such folder can be made.
    """
    source = resources.folder("plugins") / "helm4" / names.POSTRENDER
    try:
        with tempfile.TemporaryDirectory(prefix="allranks-plugins-") as folder:
            target = Path(folder) / names.POSTRENDER
            shutil.copytree(source, target, symlinks=False)
            (target / INTERPRETER).write_text(f"{sys.executable}\n", "utf-8")
            yield Path(folder)
    except OSError as error:
        raise RunError(
            f"a folder for helm's plugin cannot be made: {error.strerror or error}",
            path=tempfile.gettempdir(),
            hint="make room there, or set TMPDIR to another folder",
        ) from error


def list_installed(binary: HelmBinary) -> list[Plugin]:
    """Our plugins in a helm's plugin folder, the post-renderer first; also the other major's."""
    within = folder(binary)
    versions = (_read(within / name) for name in (names.POSTRENDER, names.SWEEP_PLUGIN))
    return [plugin for plugin in versions if plugin is not None]


def _read(path: Path) -> Plugin | None:
    text = _manifest(path)
    if text is None:
        return None
    version = _VERSION.search(text)
    try:
        interpreter = (path / INTERPRETER).read_text("utf-8").strip()
    except OSError:
        interpreter = ""
    return Plugin(
        name=path.name,
        version=version[1] if version else "",
        path=path,
        interpreter=interpreter,
        works=os.access(interpreter, os.X_OK) if interpreter else False,
    )


def uninstall(binary: HelmBinary) -> list[Path]:
    """Remove our plugins; return their folders.

    Raises:
        RunError: a folder cannot be removed.
    """
    plugins = list_installed(binary)
    for plugin in plugins:
        try:
            _remove(plugin.path)
        except OSError as error:
            raise RunError(
                f"cannot be removed: {error.strerror or error}", path=str(plugin.path)
            ) from error
    return [plugin.path for plugin in plugins]


def folder(binary: HelmBinary) -> Path:
    """The folder of helm's plugins; the first where HELM_PLUGINS lists several.

    Raises:
        InputError: helm does not say.
    """
    hint = "set HELM_PLUGINS to a folder"
    try:
        process = subprocess.run(  # noqa: S603 - the helm that was found
            [str(binary.path), "env", "HELM_PLUGINS"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_TIMEOUT,
            env=environment(os.environ, plugins=True),
        )
    except OSError as error:
        raise InputError(
            f"{binary.path} does not start: {error.strerror or error}", hint=hint
        ) from error
    except subprocess.TimeoutExpired as error:
        raise InputError(
            f"{binary.path} did not say in {_TIMEOUT} seconds where its plugins are", hint=hint
        ) from error
    text = process.stdout.strip()
    if process.returncode != 0 or not text:
        raise InputError(f"{binary.path} does not say where its plugins are", hint=hint)
    path = Path(text.split(os.pathsep)[0])
    if not path.is_absolute():
        raise InputError(
            f"{binary.path} names {text!r} as the folder of its plugins, which is no full path",
            hint=hint if os.environ.get("HOME") else f"set HOME, or {hint}",
        )
    return path


def executable() -> Path:
    """The program of our post-renderer: of this installation, else the one on PATH.

    Raises:
        MissingToolError: there is none.
    """
    beside = Path(sys.executable).parent / names.POSTRENDER
    if os.access(beside, os.X_OK):
        return beside
    on_path = shutil.which(names.POSTRENDER)
    if on_path is None:
        raise MissingToolError(
            f"the program {names.POSTRENDER} is not there", hint="reinstall allranks"
        )
    return Path(on_path).absolute()


def _manifest(path: Path) -> str | None:
    """The plugin.yaml of our plugin in a folder; None where the folder is not ours."""
    try:
        text = (path / "plugin.yaml").read_text("utf-8")
    except (OSError, UnicodeDecodeError):
        return None
    name = _NAME.search(text)
    # `sweep` may be the name of anybody's plugin.
    return text if name and name[1] == path.name and _OURS in text else None


def _refuse_foreign(target: Path) -> None:
    """Refuse a folder at our plugin's path that is not ours.

    Raises:
        InputError: something else is there.
    """
    if target.is_symlink() or not target.exists():
        return  # taking a link away leaves what it points to
    if _manifest(target) is None:
        raise InputError(
            "is in the way, and is not the plugin of allranks",
            path=str(target),
            hint="move it away, or set HELM_PLUGINS to another folder",
        )


def _refuse_shared(within: Path) -> None:
    """Refuse a folder that others may write to: helm would start their program.

    Raises:
        InputError: the folder is another user's, or any user may write to it.
    """
    if not trust.is_own_folder(within):
        raise InputError(
            "is another user's folder, or any user may write to it: helm would start what they "
            "put there",
            path=str(within),
            hint=f"`chmod o-w {within}`, or set HELM_PLUGINS to a folder of your own",
        )


def _refuse_other_major(within: Path, binary: HelmBinary) -> None:
    """Refuse a folder that another major version of helm uses.

    Raises:
        InputError: it holds a plugin of ours for the other major, such as one that Helm 3 would
            fail on.
    """
    for name in (names.POSTRENDER, names.SWEEP_PLUGIN):
        text = _manifest(within / name)
        if text is None:
            continue
        major = HELM_WITH_PLUGINS if name == names.POSTRENDER or _NEW_FORM.search(text) else 3
        if (major == HELM_WITH_PLUGINS) != (binary.major >= HELM_WITH_PLUGINS):
            raise InputError(
                f"holds {name} for Helm {major}: with plugins of both majors in one folder Helm 3 "
                "cannot load any",
                path=str(within),
                hint=f"set HELM_PLUGINS to a folder of its own for Helm {binary.major}; or, where "
                f"Helm {major} is not used any more, `{names.CLI} plugin uninstall` first",
            )


def _remove(path: Path) -> None:
    if path.is_symlink():
        path.unlink()
    elif path.exists():
        shutil.rmtree(path)
