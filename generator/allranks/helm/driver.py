"""Calling helm as a process of its own: the words, what it reads, and its failures in our words.

- The program itself is started, without a shell, so no word of a person's can become shell.
- Values are sent as JSON. Helm reads JSON as YAML, where an escaped surrogate pair (an emoji) is an
  error; such characters are sent as they are.
- `template` returns the text: whoever needs the manifests reads them without re-typing a scalar.

pyhelm3, whose client turns helm's JSON into objects, costs 0.2 s to import by itself, less beside
the kubernetes library, which brings pydantic as well. It is in `allranks.helm.client`.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.errors import ToolError
from allranks.helm import failures, tied
from allranks.helm.locate import HelmBinary, environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_RENDERING = ("template", "install", "upgrade")
_GAPS = re.compile(r"\n{2,}(?=---\n)")
_ESCAPES = re.compile(r"\\(?:u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})|.)")


@dataclass(frozen=True, slots=True)
class PostRenderer:
    """What helm pipes its manifests through.

    Attributes:
        program: Helm 3: an executable, by path or name; Helm 4: the plugin's name.
        args: further arguments for it.
        plugins: the folder that helm finds the plugin in; None is the user's own.
    """

    program: str = names.POSTRENDER
    args: tuple[str, ...] = ()
    plugins: Path | None = None


class HelmError(Exception):
    """Helm ended with another exit code than 0.

    Attributes:
        code: its exit code.
        stdout: what it printed.
        stderr: why, in its own words.
    """

    def __init__(self, code: int, stdout: bytes, stderr: bytes) -> None:
        super().__init__(code, stdout, stderr)
        self.code = code
        self.stdout = stdout
        self.stderr = stderr

    @property
    def no_release(self) -> bool:
        """Whether helm knows no release of that name."""
        return b"release: not found" in self.stderr.lower()


@dataclass(frozen=True, slots=True)
class Command:
    """How helm is called.

    Attributes:
        binary: the helm.
        post_renderer: what it pipes its manifests through; None for nothing.
        is_tied: helm ends with this process; see `allranks.helm.tied`.
        kubeconfig: the file; None is helm's own search, which is kubectl's.
        kubecontext: its context; None is the current one.
    """

    binary: HelmBinary
    post_renderer: PostRenderer | None = None
    is_tied: bool = False
    kubeconfig: Path | str | None = None
    kubecontext: str | None = None

    def argv(self, words: Sequence[str]) -> list[str]:
        """The full argument vector for a command of helm's."""
        argv = [str(self.binary.path), *words]
        if self.kubeconfig:
            argv += ["--kubeconfig", str(self.kubeconfig)]
        if self.kubecontext:
            argv += ["--kube-context", self.kubecontext]
        if self.post_renderer is not None and words[0] in _RENDERING:
            argv += ["--post-renderer", self.post_renderer.program]
            for arg in self.post_renderer.args:
                argv += ["--post-renderer-args", arg]
        return argv

    def run(self, words: Sequence[str], body: bytes | None = None) -> bytes:
        """Run helm; return its standard output.

        Args:
            words: the command and its flags.
            body: values as JSON, for helm's standard input.

        Raises:
            HelmError: helm failed.
            OSError: it cannot be started.
        """
        env = environment(os.environ, plugins=self.post_renderer is not None)
        if self.post_renderer is not None and self.post_renderer.plugins is not None:
            env["HELM_PLUGINS"] = str(self.post_renderer.plugins)
        if self.is_tied:
            env = tied.environment(env)
        process: subprocess.Popen[bytes] = subprocess.Popen(  # noqa: S603 - the helm that was found, without a shell
            self.argv(words),
            stdin=subprocess.DEVNULL if body is None else subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=env,
            **(tied.options() if self.is_tied else {}),
        )
        try:
            stdout, stderr = process.communicate(None if body is None else _plain(body))
        except BaseException:  # Ctrl-C: helm takes back what it can, and no helm is left behind
            process.terminate()
            process.communicate()
            raise
        if process.returncode:
            raise HelmError(process.returncode, stdout, stderr)
        return stdout


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
        is_tied: a signal of the terminal's is meant for us alone; see `tied`.

    Raises:
        AllranksError: helm refused, in our words.
    """
    words = ["template", release, str(chart), "--skip-crds", "--values", "-"]
    if namespace:
        words += ["--namespace", namespace]
    body = json.dumps(values, allow_nan=False).encode()
    if post_renderer is None:
        return _text(binary, call(Command(binary, is_tied=is_tied), words, body))
    with tempfile.TemporaryDirectory(prefix="allranks-") as folder:
        # Helm 4 hides a post-renderer's standard error; ours also writes to this file.
        report = Path(folder) / "report"
        piped = PostRenderer(post_renderer.program, (*post_renderer.args, f"--report={report}"))
        helm = Command(binary, post_renderer=piped, is_tied=is_tied)
        return _text(binary, call(helm, words, body, report))


def call(
    command: Command, words: Sequence[str], body: bytes | None = None, report: Path | None = None
) -> bytes:
    """Run helm; turn its failure into ours.

    Args:
        command: how it is called.
        words: the command and its flags.
        body: values as JSON, for helm's standard input.
        report: the post-renderer's report file, where one was named.

    Raises:
        AllranksError: helm failed, or could not be started.
    """
    try:
        return command.run(words, body)
    except HelmError as error:
        written = report.read_text("utf-8") if report is not None and report.exists() else ""
        raise failures.parse(error.stderr.decode("utf-8", "replace"), written) from error
    except OSError as error:
        raise ToolError(f"helm does not start: {error.strerror or error}") from error


def _text(binary: HelmBinary, printed: bytes) -> str:
    """Manifests without the empty line that Helm 4, and not Helm 3, puts before the next one.

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
