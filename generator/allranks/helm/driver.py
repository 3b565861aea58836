"""Run helm through pyhelm3, and close the gaps that pyhelm3 leaves.

pyhelm3 (0.5) knows helm's commands and their JSON, and is kept for that. Around it:

- It starts helm through a shell string; we start the program itself, so no word of a person's can
  become shell.
- It sends values as JSON with every non-ASCII character escaped; helm reads JSON as YAML, where an
  escaped surrogate pair (an emoji) is an error. We send such characters as they are.
- It cannot name a post-renderer, and it reads helm's version as strict SemVer, which a helm built
  by a plain `go install` does not print.
- `wait=True` would wait for the training to end (`--wait-for-jobs`), and `disable_validation=True`
  adds a flag letter by letter. Both are put right on the way out.
- It parses rendered manifests with a loader that re-types scalars. `template` returns the text.

Importing pyhelm3's runner costs 0.05 s: only commands that call helm import this module.
"""

from __future__ import annotations

import asyncio
import ctypes
import json
import os
import re
import signal
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import semver

from allranks import names
from allranks.errors import ToolError
from allranks.helm import errors
from allranks.helm.binary import HelmBinary, environment
from allranks.helm.pyhelm import Command, Error, ReleaseNotFoundError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence


_T = TypeVar("_T")
_RENDERING = ("template", "install", "upgrade")
_LETTERS = list("--disable-openapi-validation")
_GAPS = re.compile(r"\n{2,}(?=---\n)")
_ESCAPES = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|.)")


@dataclass(frozen=True, slots=True)
class PostRenderer:
    """The program that helm pipes its manifests through.

    Attributes:
        program: Helm 3: an executable, by path or name; Helm 4: the plugin's name.
        args: further arguments for it.
        plugins: the folder that helm finds the plugin in; None is the user's own.
    """

    program: str = names.POSTRENDER
    args: tuple[str, ...] = ()
    plugins: Path | None = None


class HelmCommand(Command):  # type: ignore[misc] # pyhelm3 has no types
    """pyhelm3's command runner, without a shell and with a post-renderer."""

    def __init__(
        self,
        binary: HelmBinary,
        *,
        post_renderer: PostRenderer | None = None,
        is_tied: bool = False,
        **options: Any,
    ) -> None:
        super().__init__(executable=str(binary.path), **options)
        self._binary = binary
        self._is_tied = is_tied
        self._post_renderer = post_renderer

    def client_version(self) -> semver.Version:
        """The version of the helm that was found, whatever form it prints it in."""
        return semver.Version.parse(self._binary.version, optional_minor_and_patch=True)

    def argv(self, command: Sequence[Any]) -> list[str]:
        """The full argument vector for a command as pyhelm3 builds it."""
        words = [str(word) for word in command if word != "--wait-for-jobs"]
        if words[-len(_LETTERS) :] == _LETTERS:
            words[-len(_LETTERS) :] = ["--disable-openapi-validation"]
        words.insert(0, self._executable)
        if self._kubeconfig:
            words += ["--kubeconfig", str(self._kubeconfig)]
        if self._kubecontext:
            words += ["--kube-context", str(self._kubecontext)]
        if self._post_renderer is not None and command[0] in _RENDERING:
            words += ["--post-renderer", self._post_renderer.program]
            for arg in self._post_renderer.args:
                words += ["--post-renderer-args", arg]
        return words

    async def run(
        self,
        command: Sequence[Any],
        input: bytes | None = None,  # noqa: A002 - pyhelm3's name for it
    ) -> bytes:
        """Run helm; return its standard output.

        Raises:
            Error: helm failed; it carries the exit code and both outputs.
        """
        env = environment(os.environ, plugins=self._post_renderer is not None)
        if self._post_renderer is not None and self._post_renderer.plugins is not None:
            env["HELM_PLUGINS"] = str(self._post_renderer.plugins)
        if self._is_tied:
            env = tied_environment(env)
        process = await asyncio.create_subprocess_exec(
            *self.argv(command),
            stdin=asyncio.subprocess.DEVNULL if input is None else asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env=env,
            **(options() if self._is_tied else {}),
        )
        try:
            stdout, stderr = await process.communicate(None if input is None else _plain(input))
        except asyncio.CancelledError:
            process.terminate()
            await process.wait()
            raise
        if process.returncode == 0:
            return stdout
        is_missing = b"release: not found" in stderr.lower()
        kind = ReleaseNotFoundError if is_missing else Error
        # pyhelm3 decodes it as UTF-8, and its failure would hide helm's own.
        stderr = stderr.decode("utf-8", "replace").encode()
        raise kind(process.returncode, stdout, stderr)


def template(
    binary: HelmBinary,
    release: str,
    namespace: str,
    chart: Path | str,
    values: Mapping[str, Any],
    *,
    post_renderer: PostRenderer | None = None,
    is_tied: bool = False,
) -> str:
    """Render a chart; return helm's text, which is the same for both majors.

    Args:
        binary: the helm to call.
        release: the release's name.
        namespace: its namespace; "" is helm's own default.
        chart: the chart's folder or archive, or a reference.
        values: the values, as one document over the chart's defaults.
        post_renderer: what to pipe the manifests through; none by default.
        is_tied: whether helm ends with this process, and hears no signal of the terminal's.

    Raises:
        AllranksError: helm refused, in our words.
    """
    command: list[str] = ["template", release, str(chart), "--skip-crds", "--values", "-"]
    if namespace:
        command += ["--namespace", namespace]
    body = json.dumps(values, allow_nan=False).encode()
    if post_renderer is None:
        return _text(binary, call(HelmCommand(binary, is_tied=is_tied).run(command, body)))
    with tempfile.TemporaryDirectory(prefix="allranks-") as folder:
        # Helm 4 hides a post-renderer's standard error; ours also writes to this file.
        report = Path(folder) / "report"
        piped = PostRenderer(post_renderer.program, (*post_renderer.args, f"--report={report}"))
        helm = HelmCommand(binary, post_renderer=piped, is_tied=is_tied)
        return _text(binary, call(helm.run(command, body), report))


def call(running: Coroutine[Any, Any, _T], report: Path | None = None) -> _T:
    """Wait for a call of a client or a command; turn its failure into ours.

    Args:
        running: the call, for example `client.list_releases()`.
        report: the post-renderer's report file, where one was named.

    Raises:
        AllranksError: helm failed, or could not be started.
    """
    try:
        return asyncio.run(running)
    except Error as error:
        problems_text = report.read_text("utf-8") if report is not None and report.exists() else ""
        raise errors.parse(error.stderr.decode("utf-8", "replace"), problems_text) from error
    except OSError as error:
        raise ToolError(f"helm does not start: {error.strerror or error}") from error


def _text(binary: HelmBinary, printed: bytes) -> str:
    """Manifests without the empty line that Helm 4 puts before the next one.

    Raises:
        ToolError: they are not UTF-8.
    """
    try:
        text = printed.decode()
    except UnicodeDecodeError as error:
        line = printed.count(b"\n", 0, error.start) + 1
        raise ToolError(
            f"line {line} of what {binary.path} rendered has the byte "
            f"0x{printed[error.start]:02x}, which is not UTF-8",
            hint="save the chart's templates and files as UTF-8; if they are, use another helm",
        ) from error
    return _GAPS.sub("\n", text)


def _plain(body: bytes) -> bytes:
    r"""Put characters beyond the first plane back in as themselves: ``\ud83d\ude00`` -> one."""

    def put(match: re.Match[str]) -> str:
        if match[1] is None:
            return match[0]
        high, low = int(match[1], 16), int(match[2], 16)
        return chr(0x10000 + ((high & 0x3FF) << 10 | (low & 0x3FF)))

    return _ESCAPES.sub(put, body.decode()).encode()


_PR_SET_PDEATHSIG = 1
_PRCTL = ctypes.CDLL(None, use_errno=True).prctl if sys.platform == "linux" else None


def tied_environment(env: Mapping[str, str]) -> dict[str, str]:
    """The environment of such a helm.

    It lives for a fraction of a second, of which its garbage collector would take a third, and has
    some 60 MiB at its end. So nothing is collected before there is more than that, and little; a
    person's own setting stays.
    """
    return {"GOGC": "off", "GOMEMLIMIT": "192MiB", **env}


def options() -> dict[str, Any]:
    """The options for a child, for `subprocess` and `asyncio` alike.

    The child ends with the thread that starts it, so that thread has to wait for it.
    """
    return {"start_new_session": True, "preexec_fn": _bound(os.getpid())}


def _bound(parent: int) -> Callable[[], None]:
    def bind() -> None:  # pragma: no cover - runs in the child, before helm
        if _PRCTL is None:
            return
        _PRCTL(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # it was killed in between
            os._exit(1)

    return bind
