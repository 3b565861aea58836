"""`helm sweep`: `allranks sweep` as a helm plugin.

Helm removes its global flags from the command line and passes them as environment variables; here
they become flags again. Without a subcommand, `helm sweep NAME CHART …` runs a sweep.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import TYPE_CHECKING

from allranks.cli import main as program

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_HELP = ("-h", "--help", "help")
COMPLETE = "__complete"
# Cobra's directives after the choices: that these are all, or that files are choices, too.
_NO_FILES, _FILES = ":4", ":0"
# The commands, and whether they may call helm.
VERBS = {
    "run": True,
    "status": False,
    "results": True,
    "export": False,
    "stop": True,
    "resume": True,
    "delete": True,
}


def arguments(helm_words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the arguments of `allranks` for a call of helm.

    Args:
        helm_words: the arguments that helm passes on.
        env: the environment that helm gives its plugins.
    """
    words = list(helm_words)
    if not words or words[0] in _HELP:
        return ["sweep", "--help"] if words else ["sweep"]
    verb = words.pop(0) if words[0] in VERBS else "run"
    flags: list[str] = []
    if env.get("HELM_BIN") and VERBS[verb]:
        flags += ["--helm", env["HELM_BIN"]]
    if verb == "run":
        flags += ["--namespace", env.get("HELM_NAMESPACE") or "default"]
        if env.get("HELM_KUBECONTEXT") and not _is_local(words):
            flags += ["--context", env["HELM_KUBECONTEXT"]]
    # The user's own arguments come last, and win.
    return ["sweep", verb, *flags, *words]


def completions(words: Sequence[str]) -> list[str]:
    """Return completions as helm expects them from plugins: lines, the last a directive.

    Args:
        words: the words after ``helm sweep``; the last one is incomplete.
    """
    from click.shell_completion import ShellComplete

    *before, start = words or [""]
    if not before:
        return [*(verb for verb in VERBS if verb.startswith(start)), _NO_FILES]
    verb, *rest = before if before[0] in VERBS else ("run", *before)
    shell = ShellComplete(program.cli, {}, "helm", program.COMPLETE_VARIABLE)
    items = shell.get_completions(["sweep", verb, *rest], start)
    plain = [item.value for item in items if item.type == "plain"]
    return [*plain, _FILES if len(plain) < len(items) else _NO_FILES]


def _is_local(words: Sequence[str]) -> bool:
    return "--on=local" in words or ("--on", "local") in itertools.pairwise(words)


def main() -> int:
    """Run the plugin; return its exit code."""
    words = sys.argv[1:]
    if words[:1] == [COMPLETE]:
        sys.stdout.write("".join(f"{line}\n" for line in completions(words[1:])))
        return 0
    if os.environ.get("HELM_DEBUG") == "true":
        os.environ.setdefault(program.ENV_DEBUG, "1")
    return program.main(arguments(words, os.environ), name="helm")
