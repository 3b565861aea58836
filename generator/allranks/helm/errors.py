"""Turn helm's error output into our errors.

Helm's messages are meant for who wrote the chart: a JSON pointer, a template's line, a Go error
chain. A person who wrote a values file needs the values path, what is allowed and the fix, in the
words that `allranks validate` uses. Both majors are read: Helm 4 words some failures differently
and adds log lines (`level=ERROR msg=…`) before the error proper.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.errors import (
    AllranksError,
    ForbiddenError,
    InputError,
    InvalidValues,
    NameTakenError,
    Problem,
    ReleaseTakenError,
    RunError,
    TemplateError,
    ToolError,
    UnknownKindError,
)
from allranks.k8s import grants, namespaces

if TYPE_CHECKING:
    from collections.abc import Callable


_NOISE = re.compile(
    r"^(level=\w+ .*|WARNING: .*|I\d{4} .*|W\d{4} .*|walk\.go:\d+: .*|Use --debug flag .*"
    r"|failed to load plugins.*)$"
)
_PREFIXES = re.compile(
    r"^(INSTALLATION FAILED|UPGRADE FAILED|release name check failed): ", re.IGNORECASE
)
_COUNT = re.compile(r"^\d+ errors? occurred:\s*\* ")
_FAIL = re.compile(r"execution error at \((?P<where>[^)]*)\): (?P<text>.*)", re.DOTALL)
_OURS = re.compile(r"^ERROR: (?P<text>.*)$", re.DOTALL)
_PATH_FIRST = re.compile(r"^(?P<path>[A-Za-z][\w.\[\]/-]*): (?P<message>.*)$", re.DOTALL)
_OF_QUEUE = re.compile(r"\bqueue (?P<queue>\S+) .*\((?P<rules>rules\.[^)]*)\)")
_FIX = re.compile(r"\n\s*fix: (?P<hint>.*)$", re.DOTALL)


def parse(stderr: str, report: str = "") -> AllranksError:
    """The error for helm's output.

    Args:
        stderr: all that helm wrote to standard error.
        report: what our post-renderer left in its report file; Helm 4 hides its standard error.
    """
    before, text = _strip(stderr)
    for rule in (parse_schema_refusal, _chart_fail, _postrender_first(report, before), *_RULES):
        error = rule(text)
        if error is not None:
            return error
    # Helm 3 counts what the API server refuses, and lists it below.
    first, _, rest = _COUNT.sub("", text).partition("\n")
    return ToolError(f"helm failed: {first or 'it printed nothing'}", hint=rest.strip())


def _strip(stderr: str) -> tuple[str, str]:
    """The output before helm's error, and the error without its prefix."""
    lines = [line.rstrip() for line in stderr.replace("\r\n", "\n").split("\n")]
    text = "\n".join(line for line in lines if not _NOISE.match(line)).strip()
    before, mark, error = f"\n{text}".partition("\nError: ")
    if not mark:
        before, error = "", text
    while match := _PREFIXES.match(error):
        error = error[match.end() :]
    return before.strip(), error


# --- templates ------------------------------------------------------------------------------------


def _chart_fail(text: str) -> AllranksError | None:
    """A template's own `fail` or `required`; ours say "ERROR: path: message", with a fix below."""
    match = _FAIL.search(text)
    if match is None:
        return None
    parts = re.split(r"\n(?=ERROR: )", match["text"].strip())
    return InvalidValues([_own_words(part, match["where"]) for part in parts])


def _own_words(text: str, template: str = "") -> Problem:
    """The problem in a text; where it is another chart's, with the template that says it."""
    ours = _OURS.match(text)
    body = ours["text"] if ours else text
    hint = ""
    if fix := _FIX.search(body):
        hint = fix["hint"].strip()
        body = body[: fix.start()]
    if ours and (match := _PATH_FIRST.match(body)):
        return Problem(match["path"], match["message"].strip(), hint)
    return Problem("", body.strip(), hint, "" if ours else template)


_POSTRENDER_FAILED = re.compile(
    r'error while running post[- ]render|post-renderer failed|plugin "[^"]*" exited with error',
    re.IGNORECASE,
)


def _postrender_first(report: str, before: str) -> Callable[[str], AllranksError | None]:
    def rule(text: str) -> AllranksError | None:
        if "--post-renderer" in text and "invalid argument" in text:
            return InputError(
                f"helm does not know this post-renderer: {text.rpartition(': ')[2]}",
                hint="run `allranks plugin install`; Helm 4 takes the plugin's name, "
                "Helm 3 an executable",
            )
        if not report and not _POSTRENDER_FAILED.search(text):
            return None
        return _of_post_renderer(report) or _postrender_stderr(text, before)

    return rule


def _of_post_renderer(report: str) -> AllranksError | None:
    """Our post-renderer's own words: one problem per line, its fix indented below it."""
    body = report.strip().removeprefix(f"{names.POSTRENDER}: ").removeprefix("error: ")
    if not body:
        return None
    return InvalidValues([_own_words(f"ERROR: {part}") for part in re.split(r"\n(?! )", body)])


def _postrender_stderr(text: str, before: str) -> AllranksError:
    # Helm 3: "… error output:\n<stderr>: exit status 1". Helm 4 shows nothing of it, but our own
    # post-renderer writes to helm's standard error by itself.
    inner = text.partition("error output:\n")[2].rpartition(": exit status")[0]
    if not inner.strip() and before.startswith(f"{names.POSTRENDER}: "):
        inner = before
    return _of_post_renderer(inner) or ToolError(
        f"the post-renderer failed: {text.splitlines()[-1]}",
        hint="run `allranks render` on the same values: it shows the post-renderer's own words",
    )


# --- everything else, most specific first ---------------------------------------------------------


def _rule(
    pattern: str, build: Callable[[re.Match[str]], AllranksError]
) -> Callable[[str], AllranksError | None]:
    compiled = re.compile(pattern, re.DOTALL | re.IGNORECASE)

    def rule(text: str) -> AllranksError | None:
        match = compiled.search(text)
        return build(match) if match else None

    return rule


def _forbidden(user: str, verb: str, resource: str, group: str, namespace: str) -> AllranksError:
    resource_name = f"{resource}.{group}" if group else resource
    inside = f" in namespace {namespace}" if namespace else ""
    if resource in _OF_THE_CLUSTER:
        hint = f"{resource} belong to the whole cluster: ask who may {verb} them, or leave them out"
    else:
        hint = (
            f"ask for a Role with {verb} on {resource_name}; docs/guides/cluster.md has a whole one"
        )
    return ForbiddenError(f"user {user!r} may not {verb} {resource_name}{inside}", hint=hint)


def _granting(match: re.Match[str]) -> AllranksError:
    reason = grants.missing_rights(match["said"]) or match["said"]
    binding = f"{_GRANTERS[match['resource']]} {match['name']!r}"
    return ForbiddenError(
        f"user {match['user']!r} may not make {binding}: {reason}",
        hint="ask for a Role with these rights; docs/guides/cluster.md has a whole one",
    )


def _denied(policy: str, why: str) -> AllranksError:
    """The error for an object that an admission policy denies; a queue's begins with the value."""
    match = _OF_QUEUE.search(why)
    path = _PATH_FIRST.match(why)
    if match is None or path is None or not policy.startswith(names.QUEUE_PREFIX):
        return RunError(
            f"the cluster refuses: {why} (ValidatingAdmissionPolicy {policy})",
            hint="change what it names, or ask who keeps this policy; no Role allows it",
        )
    queue = match["queue"]
    return InputError(
        path["message"],
        path=path["path"],
        hint=f"keep to the queue's rule {match['rules']}. The policy of queue {queue} holds the "
        f"jobs of the namespace, also those without -q: `{names.CLI} queue show {queue}` shows "
        "its rules",
    )


def _of_api_server(kind: str, name: str, field: str, reason: str) -> AllranksError:
    """The error for a field that the API server rejects."""
    value = next((match.expand(to) for form, to in _VALUES if (match := form.search(field))), "")
    return RunError(
        f"Kubernetes refuses {field}: {reason}",
        path=f"{kind}/{name}",
        hint=f"correct {value} in the values" if value else "correct the value that it comes from",
    )


# Which value makes an object of a kind that not every cluster has: of a queue, and of a job.
_VALUE_OF_KIND = {
    ("scheduling.run.ai", "Queue"): "set kai.enabled: false",
    ("scheduling.volcano.sh", "Queue"): "set volcano.enabled: false",
    **{
        ("kueue.x-k8s.io", kind): "set kueue.enabled: false"
        for kind in ("LocalQueue", "ClusterQueue", "ResourceFlavor", "Topology")
    },
    **{
        ("admissionregistration.k8s.io", kind): "set policy.enabled: auto"
        for kind in ("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding")
    },
    ("scheduling.volcano.sh", "PodGroup"): "set another scheduling.dialect",
    ("scheduling.run.ai", "PodGroup"): "set another scheduling.dialect",
    ("scheduling.x-k8s.io", "PodGroup"): "set another scheduling.dialect",
}


def _unknown_kind(kind: str, version: str) -> AllranksError:
    ours = version in (names.API_VERSION, names.ELASTIC_API_VERSION)
    value = _VALUE_OF_KIND.get((version.partition("/")[0], kind), "")
    return UnknownKindError(
        f"the cluster does not know the kind {kind} ({version})",
        hint=f"`{names.CLI} operator install --crds-only` gives it that kind; "
        f"`{names.CLI} delete NAME` removes a run without it"
        if ours
        else f"install what brings that kind, or {value or 'leave out the values that need it'}",
    )


_GRANTERS = {
    "roles": "Role",
    "rolebindings": "RoleBinding",
    "clusterroles": "ClusterRole",
    "clusterrolebindings": "ClusterRoleBinding",
}
_OF_THE_CLUSTER = (
    *("clusterroles", "clusterrolebindings", "customresourcedefinitions"),
    *("validatingadmissionpolicies", "validatingadmissionpolicybindings"),
    *("persistentvolumes", "storageclasses"),
)
# The values that fields of an object come from, where the field tells.
_VALUES = (
    (re.compile(r"^spec\.ingress\[\d+\]\.from\b"), "networkPolicy.from"),
    (re.compile(r"containers\[\d+\]\.(resources\.(?:requests|limits))\b"), r"\1"),
)
_CLUSTER_HINT = "check `kubectl config current-context`; `allranks doctor` tests the way there"

_RULES: tuple[Callable[[str], AllranksError | None], ...] = (
    _rule(
        rf'no matches for kind "{names.SENTINEL_KIND}"|kind "?{names.SENTINEL_KIND}',
        lambda _: InputError(
            "these values need the post-renderer, and helm was called without it",
            hint="add --post-renderer allranks-postrender (`allranks plugin install` once)",
        ),
    ),
    _rule(
        r'no matches for kind "(?P<kind>[^"]+)" in version "(?P<version>[^"]+)"',
        lambda m: _unknown_kind(m["kind"], m["version"]),
    ),
    _rule(
        r"YAML parse error on (?P<where>\S+): (?P<why>[^\n]*)",
        lambda m: TemplateError(
            f"the chart rendered text that is not YAML: {m['why']}",
            path=m["where"],
            hint="please report this with your values file: a chart must not do that",
        ),
    ),
    _rule(
        r"failed to parse (?P<file>[^:\n]+): (?P<why>[^\n]*)",
        lambda m: InputError(
            f"is not valid YAML: {m['why'].rpartition('yaml: ')[2]}", path=m["file"]
        ),
    ),
    _rule(
        r"failed parsing (?P<flag>--set\S*) data: (?P<why>[^\n]*)",
        lambda m: InputError(f"cannot be read: {m['why']}", path=m["flag"]),
    ),
    _rule(
        # The second where somebody else took it at the same moment.
        r"cannot re-?use a name that is still in use|release: already exists"
        r'|release "?(?P<name>\S+?)"? already exists',
        lambda _: ReleaseTakenError(
            "a release of this name is already there",
            hint=f"take another name; or change that one with `{names.CLI} upgrade NAME`, or "
            f"remove it with `{names.CLI} delete NAME`",
        ),
    ),
    _rule(
        # Helm says the same where it cannot look at an object; the reason is then behind it.
        r"\A(?!.*could not get information about the resource).*?(rendered manifests contain a "
        r"resource that already exists|unable to continue with (install|update))(?P<what>[^\n]*)",
        lambda m: NameTakenError(
            f"an object of this name is already there and belongs to another release{m['what']}",
            hint="take another release name, or remove what has the object",
        ),
    ),
    _rule(
        r'release name "?(?P<name>[^"\n]*?)"?:? *:? invalid|invalid release name',
        lambda _: InputError(
            "is not a release name: lower-case letters, digits and '-', at most 53 of them",
            path="release name",
        ),
    ),
    _rule(
        r"Kubernetes cluster unreachable: (?P<why>[^\n]*)",
        lambda m: RunError(f"the cluster does not answer: {m['why']}", hint=_CLUSTER_HINT),
    ),
    _rule(
        r"database space exceeded",
        lambda _: RunError(
            "the release cannot be stored: the etcd of the cluster is full",
            hint="whoever runs the cluster has to make room in etcd; then give the command again",
        ),
    ),
    _rule(
        r"(?P<why>[^\n]*(connection refused|i/o timeout|no such host|network is unreachable|"
        r"operation timed out|connection reset by peer|\bEOF\b|http2: [^\n]*GOAWAY)[^\n]*)",
        lambda m: RunError(f"the cluster does not answer: {m['why']}", hint=_CLUSTER_HINT),
    ),
    _rule(
        r"(?P<why>exceeded quota: [^\n]*)",
        lambda m: RunError(
            f"the namespace's quota forbids it: {m['why']}",
            hint="ask for less, end another run, or have the quota raised",
        ),
    ),
    _rule(
        r'User "(?P<user>[^"]*)" cannot (?P<verb>\w+) resource "(?P<resource>[^"]*)" '
        r'in API group "(?P<group>[^"]*)"(?: in the namespace "(?P<namespace>[^"]*)")?',
        lambda m: _forbidden(**m.groupdict(default="")),
    ),
    _rule(
        rf'(?P<resource>{"|".join(_GRANTERS)})\.rbac\.authorization\.k8s\.io "(?P<name>[^"]*)" is '
        r'forbidden: user "(?P<user>[^"]*)"(?P<said>.*not currently held:.*)',
        _granting,
    ),
    _rule(
        r"ValidatingAdmissionPolicy '(?P<policy>[^']*)'[^\n]*? denied request: (?P<why>[^\n]*)",
        lambda m: _denied(**m.groupdict()),
    ),
    _rule(
        r"(?P<why>[^\n]*\bis forbidden: [^\n]*)",
        lambda m: RunError(
            f"the cluster refuses: {m['why']}", hint="ask for this right in the namespace"
        ),
    ),
    _rule(
        r'namespaces "(?P<name>[^"]+)" not found',
        lambda m: InputError(
            f"there is no namespace {m['name']!r}",
            hint=namespaces.hint(m["name"]),
        ),
    ),
    _rule(
        r"another operation \(install/upgrade/rollback\) is in progress",
        lambda _: RunError(
            "another helm command is at work on this release, or was cut off",
            hint=f"wait for it; where it was cut off, `{names.CLI} delete NAME` removes the run",
        ),
    ),
    _rule(
        r'"(?P<name>[^"]*)" has no deployed releases',
        lambda m: InputError(
            f"release {m['name']!r} has never been installed well",
            hint=f"`{names.CLI} delete {m['name']}`, and run it anew",
        ),
    ),
    _rule(
        r'conflict with "(?P<manager>[^"]*)"[^:]*:\s*(?:- )?(?P<field>\.[^\s]*)',
        lambda m: RunError(
            f"{m['field'].lstrip('.')} was set by {m['manager']!r}, which helm does not overrule",
            hint=f"take the same value; `{names.CLI} upgrade` overrules it, as does helm with "
            "--force-conflicts",
        ),
    ),
    _rule(
        r'(?P<kind>\w+)(?:\.[\w.]+)? "(?P<name>[^"]+)" is invalid: (?P<field>[\w.\[\]]+): '
        r"[^\n]*(field is immutable|updates to \w+ spec for fields other than)",
        lambda m: InputError(
            f"Kubernetes does not change {m['field']} of a {m['kind']} that is there",
            path=f"{m['kind']}/{m['name']}",
            hint=f"`{names.CLI} upgrade NAME --recreate` replaces the object",
        ),
    ),
    _rule(
        r'(?P<kind>\w+)(?:\.[\w.]+)? "(?P<name>[^"]+)" is invalid: \[?(?P<field>\w[\w.\[\]]*): '
        r"(?P<reason>[^\n]*)",
        lambda m: _of_api_server(**m.groupdict()),
    ),
    _rule(
        r"\([^;)\n]*/(?P<name>[^;)\n]+); [^\n]*Kind=(?P<kind>\w+)\): \.(?P<field>\S+): "
        r"(?P<reason>field not declared in schema)",
        lambda m: _of_api_server(**m.groupdict()),
    ),
    _rule(
        r"Chart\.yaml file is missing|unable to detect chart at|non-absolute URLs should be|"
        r'^path "[^"]*" not found|chart "[^"]*".*not found',
        lambda m: InputError(
            f"there is no chart: {m.string.splitlines()[0]}",
            hint="name a folder with a Chart.yaml in it, an archive, or a reference",
        ),
    ),
    _rule(
        r"(template: )?(?P<where>[\w./-]+\.(?:ya?ml|tpl|txt):\d+:\d+)(?P<why>.*)",
        lambda m: TemplateError(
            "the chart's template failed: " + " ".join(m["why"].strip(": \n").split()),
            path=m["where"],
            hint="please report this with your values file",
        ),
    ),
)


_SCHEMA_HEAD = "values don't meet the specifications of the schema"
_AT = re.compile(r"^(?P<indent> *)- at '(?P<pointer>(?:[^'\\]|\\.)*)': (?P<text>.*)$")
_SCHEMA_WORDS = (
    (r"^got (.*), want (.*)$", r"must be \2, not \1"),
    (r"^minimum: got (.*), want (.*)$", r"must be at least \2, not \1"),
    (r"^maximum: got (.*), want (.*)$", r"must be at most \2, not \1"),
    (r"^exclusiveMinimum: got (.*), want (.*)$", r"must be more than \2, not \1"),
    (r"^exclusiveMaximum: got (.*), want (.*)$", r"must be less than \2, not \1"),
    (r"^minLength: got (.*), want (.*)$", r"must have at least \2 characters, not \1"),
    (r"^maxLength: got (.*), want (.*)$", r"must have at most \2 characters, not \1"),
    (r"^minItems: got (.*), want (.*)$", r"must have at least \2 entries, not \1"),
    (r"^maxItems: got (.*), want (.*)$", r"must have at most \2 entries, not \1"),
    (r"^minProperties: got (.*), want (.*)$", r"must have at least \2 keys, not \1"),
    (r"^maxProperties: got (.*), want (.*)$", r"must have at most \2 keys, not \1"),
    (r"^value must be one of (.*)$", r"must be one of \1"),
    (r"^value must be (.*)$", r"must be \1"),
    (r"^(.*) does not match pattern (.*)$", r"\1 does not match \2"),
)


def parse_schema_refusal(text: str) -> AllranksError | None:
    """The problems in a refusal by a chart's schema.

    Args:
        text: helm's error, without what it printed before.

    Returns:
        None where the error is not about the schema.
    """
    if _SCHEMA_HEAD not in text:
        return None
    rows = [match for line in text.splitlines() if (match := _AT.match(line))]
    problems: list[Problem] = []
    skip_deeper: int | None = None
    for row in rows:
        depth = len(row["indent"])
        if skip_deeper is not None and depth > skip_deeper:
            continue
        skip_deeper = None
        refusal = row["text"]
        if refusal == "validation failed":
            continue
        if refusal.startswith(("'oneOf' failed", "'anyOf' failed")):
            # The branches below say what each would have allowed; one line says it for all.
            skip_deeper = depth
            refusal = _branches(rows, row)
        problems.extend(_problems(_values_path(row["pointer"]), refusal))
    if not problems:
        return InputError("the values do not match the chart's schema", hint=text)
    return InvalidValues(problems)


def _branches(rows: list[re.Match[str]], head: re.Match[str]) -> str:
    depth = len(head["indent"])
    expected: list[str] = []
    for row in rows[rows.index(head) + 1 :]:
        if len(row["indent"]) <= depth:
            break
        if match := re.match(r"^got (.*), want (.*)$", row["text"]):
            expected.append(match[2])
            actual = match[1]
    if not expected:
        return "matches none of the forms that are allowed here"
    return f"got {actual}, want {' or '.join(dict.fromkeys(expected))}"


def _values_path(pointer: str) -> str:
    path = ""
    for token in pointer.split("/")[1:]:
        key = token.replace("~1", "/").replace("~0", "~")
        if key.isdigit():
            path += f"[{key}]"
        else:
            path += f".{key}" if path else key
    return path


def _problems(path: str, text: str) -> list[Problem]:
    """The problems in a line of helm's; each unknown key is its own."""
    if match := re.match(r"^additional propert(?:y|ies) (.*) not allowed$", text):
        return [
            Problem(f"{path}.{key}" if path else key, "unknown key", "remove it, or correct it")
            for key in re.findall(r"'((?:[^'\\]|\\.)*)'", match[1])
        ]
    if match := re.match(r"^missing propert(?:y|ies) (.*)$", text):
        return [
            Problem(f"{path}.{key}" if path else key, "is required", "set it")
            for key in re.findall(r"'((?:[^'\\]|\\.)*)'", match[1])
        ]
    for pattern, message in _SCHEMA_WORDS:
        if match := re.match(pattern, text):
            return [Problem(path, match.expand(message))]
    return [Problem(path, text)]
