"""Programs that answer at a port, which people reach from their own machine by a tunnel."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks.convert.slurm.batch_script.text import started_words, words
from allranks.convert.verdicts import Outcome, Verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from allranks.convert.slurm.batch_script.text.script import Script

# Programs that answer, and those of their words that start one; with none, all do.
_SERVERS = {
    "jupyter": frozenset({"notebook", "lab", "server"}),
    **dict.fromkeys(("vllm", "ollama", "mlflow", "bentoml"), frozenset({"serve", "server", "ui"})),
    **dict.fromkeys(("streamlit", "chainlit", "fastapi", "flask", "serve"), frozenset({"run"})),
    **dict.fromkeys(
        ("jupyter-notebook", "jupyter-lab", "jupyter-server", "tensorboard", "code-server"),
        frozenset[str](),
    ),
    **dict.fromkeys(
        (
            *("uvicorn", "gunicorn", "hypercorn", "gradio", "llama-server", "tritonserver"),
            "text-generation-launcher",
        ),
        frozenset[str](),
    ),
}
# The same as modules of Python's.
_MODULES = re.compile(
    r"http\.server|uvicorn|gunicorn|hypercorn|tensorboard(?:\.main)?|jupyterlab|notebook"
    r"|vllm\.entrypoints\.(?:openai\.)?api_server|sglang\.launch_server"
    r"|fastchat\.serve\.\w+|llama_cpp\.server|xinference\.\w+"
)
# Words with which those do something else, and end.
_SERVES_NOT = frozenset(
    {"--version", "--help", "--generate-config", "list", "stop", "build", "password"}
    | {"--install-extension", "--uninstall-extension", "--list-extensions"}
)
_PORT_OF_POD = (
    "nobody outside reaches a pod's port by ssh: `kubectl port-forward POD PORT` brings it to your "
    "machine, as localhost"
)
# An address that is not that of localhost, nor of all networks.
_OF_ADDRESS = re.compile(
    r"--(?:ip|host|bind|bind[-_](?:addr|all|address))[= ][\"']?"
    r"(?!0\.0\.0\.0|127\.|localhost|\*|::)\S"
)
_ON_LOCALHOST = (
    ", where the program listens on it: let it listen on 127.0.0.1, or 0.0.0.0, and on no address "
    "of its node"
)


def say(script: Script) -> list[Verdict]:
    """The first line of each program that answers at a port."""
    verdicts: dict[str, Verdict] = {}
    for command in script.commands:
        for texts in started_words.programs(command):
            program = _server(texts)
            if program and program not in verdicts:
                is_of_node = _OF_ADDRESS.search(" ".join(texts)) is not None
                why = _PORT_OF_POD + _ON_LOCALHOST * is_of_node
                verdicts[program] = Verdict(program, Outcome.CHANGED, "", why, command.line)
    return [*verdicts.values()]


def _server(texts: Sequence[str]) -> str:
    """The program, or the module, of words that start a server; "" for any others."""
    program = words.base(next(iter(texts), ""))
    if not _SERVES_NOT.isdisjoint(texts):
        return ""
    if words.is_python(list(texts)) and "-m" in texts[:-1]:
        module = texts[texts.index("-m") + 1]
        return module if _MODULES.fullmatch(module) else ""
    starting = _SERVERS.get(program)
    verb = next((text for text in texts[1:] if not text.startswith("-")), "")
    is_server = starting is not None and (not starting or verb in starting)
    return program if is_server else ""
