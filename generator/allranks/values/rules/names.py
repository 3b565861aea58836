"""Rules about names: the release's, and labels that belong to the charts."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from allranks import names
from allranks.values.rules.rule import Finding, Rule, View, path

if TYPE_CHECKING:
    from collections.abc import Iterator

# A StatefulSet's pods carry the label controller-revision-hash: <name>-<ten characters>, which
# may have 63; a Job's names are shorter than what Helm allows a release.
_STATEFUL_MAX = names.DNS_LABEL_MAX - 11
_DNS_1035 = re.compile(r"[a-z]([-a-z0-9]*[a-z0-9])?")
_DNS_1123 = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?")

# Labels by which controllers, Services and status find the pods.
_OURS = (
    names.APP_NAME,
    names.APP_INSTANCE,
    names.APP_MANAGED_BY,
    names.APP_PART_OF,
    names.HELM_CHART,
    names.POD_INDEX,
    names.STATEFULSET_POD_NAME,
    "controller-revision-hash",
    "job-name",
    "controller-uid",
)
_OUR_PREFIXES = (f"{names.DOMAIN}/", "batch.kubernetes.io/", "meta.helm.sh/")


def nearest_name(name: str, limit: int) -> str:
    """A name as a Service wants it (DNS-1035), as near to `name` as can be."""
    text = re.sub(r"[^a-z0-9]+", "-", name.lower()).strip("-")
    if not text or not text[0].isalpha():
        text = f"job-{text}".rstrip("-")
    return text[:limit].rstrip("-")


def reserved(key: str) -> bool:
    """Whether a label or annotation is the charts' own."""
    return key in _OURS or key.startswith(_OUR_PREFIXES)


def _release_name(view: View) -> Iterator[Finding]:
    name = view.release
    if not name:
        return
    stateful = view["torchrun.controller"] == "StatefulSet"
    limit = _STATEFUL_MAX if stateful else names.HELM_RELEASE_NAME_MAX
    if not _DNS_1035.fullmatch(name):
        yield Finding(
            (),
            f"the release name {name!r} is no name for a Service: it needs lower-case letters, "
            'digits and "-", a letter first and no "-" last',
            f"name it {nearest_name(name, limit)}",
        )
    elif len(name) > limit:
        why = " with a StatefulSet" if stateful else ""
        yield Finding(
            (),
            f"the release name is {len(name)} characters long; at most {limit} are allowed{why}",
            f"name it {nearest_name(name, limit)}",
        )


def _namespace(view: View) -> Iterator[Finding]:
    name = view.namespace
    if name and not (_DNS_1123.fullmatch(name) and len(name) <= names.DNS_LABEL_MAX):
        yield Finding(
            (),
            f"the namespace {name!r} is no name for a namespace: it needs lower-case letters, "
            f'digits and "-", at most {names.DNS_LABEL_MAX}',
            f"name it {nearest_name(name, names.DNS_LABEL_MAX)}",
        )


def _own_labels(view: View) -> Iterator[Finding]:
    for dotted in ("labels", "annotations"):
        for key in view[dotted]:
            if reserved(key):
                yield Finding(path(dotted, key), "the charts set this key themselves", "remove it")
    for dotted in ("podTemplate.metadata.labels", "podTemplate.metadata.annotations"):
        template = view["podTemplate"].get("metadata", {}).get(dotted.rsplit(".", 1)[1], {})
        for key in template:
            if reserved(key):
                yield Finding(
                    path(dotted, key),
                    "the charts find the job's pods by this key, so it cannot be changed",
                    "remove it, or use a key of your own",
                )


def _no_hooks(view: View) -> Iterator[Finding]:
    for key in view["annotations"]:
        if key.startswith(names.HELM_HOOK):
            yield Finding(
                path("annotations", key),
                "would turn the job's own objects into Helm hooks, which belong to no release",
                "remove it",
            )


def _account(view: View) -> Iterator[Finding]:
    if view["serviceAccount.annotations"] and not view["serviceAccount.create"]:
        yield Finding(
            path("serviceAccount.annotations"),
            "annotations are for an account that the chart makes, and create is false",
            "set serviceAccount.create: true, or annotate the existing account itself",
        )


RULES = (
    Rule(
        "release-name",
        "The release's name is the name of a Service: lower-case letters, digits and `-`, a "
        "letter first, at most 53 characters (52 with a StatefulSet).",
        ("torchrun.controller",),
        _release_name,
    ),
    Rule(
        "namespace",
        "The namespace has lower-case letters, digits and `-`, at most 63.",
        (),
        _namespace,
    ),
    Rule(
        "own-labels",
        "Labels and annotations that the charts set themselves are not set by the user.",
        ("labels", "annotations", "podTemplate"),
        _own_labels,
    ),
    Rule(
        "no-hooks",
        "`annotations` do not make Helm hooks of the job's objects.",
        ("annotations",),
        _no_hooks,
    ),
    Rule(
        "service-account",
        "`serviceAccount.annotations` need `serviceAccount.create`.",
        ("serviceAccount",),
        _account,
    ),
)
