"""Find and check the kubeconfig before the library reads it.

The library's own errors name neither the file nor the way out, and some broken files end in a
TypeError inside it. Here the same files are looked at first, with our errors.
"""

from __future__ import annotations

import difflib
import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

from allranks.errors import InputError
from allranks.yamlio.load import load_all

ENV = "KUBECONFIG"
IN_CLUSTER_ENV = "KUBERNETES_SERVICE_HOST"
DEFAULT_NAMESPACE = "default"
# Helm reads them besides the kubeconfig: whom to be, and what leads its requests elsewhere.
_AS_USER, _AS_GROUPS = "HELM_KUBEASUSER", "HELM_KUBEASGROUPS"
_ELSEWHERE = (
    "HELM_KUBEAPISERVER",
    "HELM_KUBETOKEN",
    "HELM_KUBECAFILE",
    "HELM_KUBETLS_SERVER_NAME",
    "HELM_KUBEINSECURE_SKIP_TLS_VERIFY",
)
_POD_NAMESPACE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_SECTIONS = ("clusters", "contexts", "users")
# What the name of a header may have besides letters and digits; the rest is percent-encoded.
_HEADER_MARKS = "!#$&'*+-.^_`|~"


@dataclass(frozen=True, slots=True)
class Kubeconfig:
    """The files to read and the context to use.

    Attributes:
        files: existing files, in the order in which they win; () inside a pod.
        context: the context's name; "" inside a pod.
        namespace: the context's own; the pod's own inside a pod.
        impersonation: the headers that ask for the rights of the one whom the context's user
            impersonates, a header for each value; () where it impersonates nobody.
    """

    files: tuple[str, ...]
    context: str
    namespace: str = DEFAULT_NAMESPACE
    impersonation: tuple[tuple[str, str], ...] = ()

    @property
    def in_cluster(self) -> bool:
        """Whether the pod's own service account is used."""
        return not self.files


def find(explicit: str | None, context: str | None) -> Kubeconfig:
    """The kubeconfig that kubectl would use.

    Args:
        explicit: a file the user named; None looks at ``KUBECONFIG``, ``~/.kube/config`` and, in
            a pod, at its service account.
        context: the context the user named; None is the current one.

    Raises:
        InputError: there is none, a file is broken, or the context is not in it.
    """
    _refuse_elsewhere()
    files, candidates = _files(explicit)
    if not files:
        path_list = explicit or os.environ.get(ENV)
        if not path_list and not context and os.environ.get(IN_CLUSTER_ENV):
            return Kubeconfig((), "", _pod_namespace())
        _refuse_nothing(candidates)
        _refuse_folders(candidates, "--kubeconfig" if explicit else f"${ENV}")
        raise InputError(
            f"there is no kubeconfig at {', '.join(candidates)}",
            hint=f"set {ENV} to your cluster's file; without a cluster, run with --on local and "
            "plan with --inventory FILE",
        )
    contents = {file: _read(file) for file in files}
    current = next((name for data in contents.values() if (name := _current(data))), "")
    contexts = [
        context["name"] for data in contents.values() for context in data.get("contexts") or ()
    ]
    context_name = _context(context, current, contexts, files)
    _check_login(contents, context_name)
    own = _entry(contents, "contexts", context_name, "context")[1].get("namespace")
    return Kubeconfig(
        tuple(files),
        context_name,
        str(own or DEFAULT_NAMESPACE),
        _impersonation(contents, context_name),
    )


def has_context() -> bool:
    """Whether there is a cluster: a kubeconfig with a current context, or a pod's own.

    Raises:
        InputError: a kubeconfig is there and is broken, or $KUBECONFIG names none that is there.
    """
    files, looked = _files(None)
    if not files and os.environ.get(ENV):
        _refuse_nothing(looked)
        _refuse_folders(looked, f"${ENV}")
        raise InputError(
            f"${ENV} names {', '.join(looked)}, and there is no such file",
            hint="mend or unset it; for a run on this machine add --on local",
        )
    if not files:
        return bool(os.environ.get(IN_CLUSTER_ENV))
    return any(_current(_read(file)) for file in files)


def _files(explicit: str | None) -> tuple[list[str], list[str]]:
    """The files that exist, and the paths that were searched."""
    path_list = explicit or os.environ.get(ENV, "")
    candidates = [candidate for candidate in path_list.split(os.pathsep) if candidate]
    if not path_list:
        with suppress(RuntimeError):  # neither HOME nor the system names a home folder
            candidates = [str(Path.home() / ".kube" / "config")]
    # /dev/null is a usual way to say "no cluster": an empty file to kubectl, too.
    paths = map(_expand, candidates)
    files = [str(path) for path in paths if path.is_file() or path.is_char_device()]
    return files, candidates or ([] if path_list else ["~/.kube/config"])


def _expand(name: str) -> Path:
    try:
        return Path(name).expanduser()
    except RuntimeError:  # a ~ of nobody
        return Path(name)


def _refuse_nothing(paths: list[str]) -> None:
    """Refuse a KUBECONFIG that names no file; kubectl then has no cluster."""
    if not paths:
        raise InputError(
            f"${ENV} is {os.environ.get(ENV, '')!r}, which names no file",
            hint="mend or unset it; for a run on this machine add --on local",
        )


def _refuse_folders(paths: list[str], origin: str) -> None:
    """Refuse a path that is a folder."""
    folder = next((name for name in paths if _expand(name).is_dir()), None)
    if folder is not None:
        raise InputError(
            f"{origin} names {folder}, which is a folder",
            hint=f"name the file in it, as in {Path(folder) / 'config'}",
        )


def _refuse_elsewhere() -> None:
    """Refuse a variable that would lead helm to another server, or as another user, than us."""
    for name in _ELSEWHERE:
        # Helm gives all of them to a plugin, those that nobody has set as these.
        if os.environ.get(name, "") not in ("", "false"):
            raise InputError(
                f"${name} is set, which only helm reads: it would not ask the cluster as we do",
                hint="unset it, and say in the kubeconfig how the cluster is reached",
            )


def _pod_namespace() -> str:
    try:
        return _POD_NAMESPACE.read_text("utf-8").strip() or DEFAULT_NAMESPACE
    except OSError:
        return DEFAULT_NAMESPACE


def _current(data: dict[str, Any]) -> str:
    return str(data.get("current-context") or "")


def _check_login(contents: dict[str, dict[str, Any]], context: str) -> None:
    """Refuse a missing login program: the library would go on without credentials."""
    user = _entry(contents, "contexts", context, "context")[1].get("user")
    file, login = _entry(contents, "users", str(user), "user")
    plugin = login.get("exec")
    command = plugin.get("command") if isinstance(plugin, dict) else None
    if not isinstance(command, str):
        return
    relative = os.sep in command and not Path(command).is_absolute()
    if shutil.which(Path(file).parent / command if relative else command) is None:
        raise InputError(
            f"context {context} logs in with {command!r}, which is not on PATH",
            hint=f"install {command}, or name another context",
            source=file,
        )


def _impersonation(
    contents: dict[str, dict[str, Any]], context: str
) -> tuple[tuple[str, str], ...]:
    """The headers for `as`, `as-uid`, `as-groups` and `as-user-extra` of the context's user.

    The library does not read these keys; kubectl and helm do. As in helm, variables of the user's
    stand above `as` and `as-groups`.

    Raises:
        InputError: a key is of the wrong kind, or there are some without `as`.
    """
    user = str(_entry(contents, "contexts", context, "context")[1].get("user"))
    file, own = _entry(contents, "users", user, "user")
    groups = [group for group in os.environ.get(_AS_GROUPS, "").split(",") if group]
    typed = {"as": os.environ.get(_AS_USER), "as-groups": groups}
    login = own | {key: value for key, value in typed.items() if value}
    extra = login.get("as-user-extra") or {}
    values = [
        ("as", "Impersonate-User", [login.get("as") or ""]),
        ("as-uid", "Impersonate-Uid", [login.get("as-uid") or ""]),
        ("as-groups", "Impersonate-Group", login.get("as-groups") or []),
    ]
    if isinstance(extra, dict):
        for key, texts in extra.items():
            header = f"Impersonate-Extra-{quote(str(key), safe=_HEADER_MARKS)}"
            values.append((f"as-user-extra.{key}", header, texts))
    else:
        values.append(("as-user-extra", "", None))
    headers: list[tuple[str, str]] = []
    for key, header, texts in values:
        if not isinstance(texts, list) or not all(_is_header(text) for text in texts):
            kind = "a text" if key in ("as", "as-uid") else "a list of texts"
            raise InputError(
                f"`{key}` of user {user} is not {kind}",
                hint="mend the file, or name another context",
                source=file,
            )
        headers += [(header, text) for text in texts if text or "Extra" in header]
    if headers and not login.get("as"):
        raise InputError(
            f"user {user} asks for a uid, groups or extra of somebody, and names nobody",
            hint="add `as: NAME` to the user, or take the other `as-…` keys out",
            source=file,
        )
    return tuple(headers)


def _is_header(text: object) -> bool:
    return isinstance(text, str) and not any(ord(char) < ord(" ") for char in text)


def _entry(
    contents: dict[str, dict[str, Any]], section: str, name: str, key: str
) -> tuple[str, dict[str, Any]]:
    """The first entry of that name, and its file."""
    for file, data in contents.items():
        for entry in data.get(section) or ():
            if entry["name"] == name:
                value = entry.get(key)
                return file, value if isinstance(value, dict) else {}
    return "", {}


def _context(explicit: str | None, current: str, contexts: list[str], files: list[str]) -> str:
    source = ", ".join(files)
    available = f"contexts: {', '.join(contexts)}" if contexts else "it has no contexts at all"
    if not explicit and not current:
        raise InputError(
            "the kubeconfig has no current context",
            hint=f"name one with --context, or run kubectl config use-context NAME; {available}",
            source=source,
        )
    context = explicit or current
    if context not in contexts:
        near = difflib.get_close_matches(context, contexts, n=1)
        fix = f"did you mean {near[0]}? " if near else ""
        raise InputError(
            f"the kubeconfig has no context {context!r}", hint=fix + available, source=source
        )
    return context


def _read(file: str) -> dict[str, Any]:
    """A file, checked as far as the library assumes its shape."""
    try:
        text = Path(file).read_bytes()
    except OSError as error:
        raise InputError(
            f"the kubeconfig cannot be read: {error.strerror or error}",
            hint="check the file's permissions",
            source=file,
        ) from error
    try:
        documents = load_all(text)
    except InputError as error:
        raise InputError(
            f"the kubeconfig is not valid YAML: {error.problem.message}",
            hint="mend the file, or fetch it again from your cluster's provider",
            source=file,
        ) from error
    data = documents[0] if documents else None
    if data is None and Path(file).is_char_device():
        data = {}  # /dev/null: no entries, as kubectl reads it
    if not isinstance(data, dict) or not all(_named(data.get(key)) for key in _SECTIONS):
        raise InputError(
            "this is no kubeconfig: clusters, contexts and users must be lists of named entries",
            hint="fetch it again from your cluster's provider",
            source=file,
        )
    return data


def _named(entries: object) -> bool:
    if entries is None:
        return True
    return isinstance(entries, list) and all(
        isinstance(entry, dict) and isinstance(entry.get("name"), str) for entry in entries
    )
