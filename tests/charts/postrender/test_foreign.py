"""Charts that are not ours, through real helms: what changes, and what must not."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from allranks.postrender import process
from allranks.postrender.arguments import parse
from allranks.yamlio.load import load_all

if TYPE_CHECKING:
    from pathlib import Path

    from conftest import Helm

HELM_3 = 3
LISTED = ("v1/List", "")
KUEUE = ("--dialect=kueue", "--queue=research")


def output(helm: Helm, chart: Path, *options: str, values: tuple[str, ...] = ()) -> str:
    """What `helm template` prints with our post-renderer; it must succeed."""
    process = helm.post_rendered(chart, *options, values=values)
    assert 0 == process.returncode, process.stderr
    return process.stdout


def documents(text: str) -> dict[tuple[str, str], str]:
    """The documents of a stream by kind and name, as text."""
    texts: dict[tuple[str, str], str] = {}
    for part in f"\n{text}".split("\n---\n")[1:]:
        (manifest,) = load_all(part)
        texts[key_of(manifest)] = part.rstrip("\n")
    return texts


def key_of(manifest: dict[str, Any]) -> tuple[str, str]:
    """API version and kind, and name."""
    metadata = manifest.get("metadata") or {}
    return f"{manifest['apiVersion']}/{manifest['kind']}", metadata.get("name", "")


def manifest_of(text: str, kind: str, name: str) -> dict[str, Any]:
    """One object of a stream."""
    (manifest,) = [
        document
        for document in load_all(text)
        if document
        and document["kind"] == kind
        and (document.get("metadata") or {}).get("name", "") == name
    ]
    assert isinstance(manifest, dict)
    return manifest


def test_nothing_asked_leaves_every_byte(helm: Helm, foreign: Path) -> None:
    """As a post-renderer that is `cat`: comments, anchors, CRLF, tabs, hooks, Lists."""
    assert helm.passed_through(foreign) == output(helm, foreign)


@pytest.mark.parametrize(
    ("options", "changed"),
    [
        (
            KUEUE,
            {
                ("apps/v1/Deployment", "demo-web"),
                ("apps/v1/StatefulSet", "demo-db"),
                ("batch/v1/Job", "demo-train"),
                ("batch/v1/CronJob", "demo-nightly"),
                LISTED,
            },
        ),
        ((*KUEUE, "--kind=Job"), {("batch/v1/Job", "demo-train")}),
        (("--restricted", "--name=demo-web"), {("apps/v1/Deployment", "demo-web")}),
        (("--shm-size=1Gi", "--kind=StatefulSet"), {("apps/v1/StatefulSet", "demo-db")}),
    ],
)
def test_only_what_was_asked_for_changes(
    helm: Helm, foreign: Path, options: tuple[str, ...], changed: set[tuple[str, str]]
) -> None:
    """All other documents are equal to the byte, hooks and custom resources among them."""
    before, after = (
        documents(helm.passed_through(foreign)),
        documents(output(helm, foreign, *options)),
    )

    if LISTED in changed and helm.major > HELM_3:
        # Helm 4 takes Lists apart, behind the post-renderer.
        changed = (changed - {LISTED}) | {("v1/Pod", "demo-listed")}
    assert list(before) == list(after)
    assert changed == {key for key in before if before[key] != after[key]}
    assert ("batch/v1/Job", "demo-migrate") in after


def test_changed_objects_keep_every_value(helm: Helm, foreign: Path) -> None:
    """Strings that look like numbers stay strings, in the manifest that Helm hands on."""
    before = manifest_of(helm.passed_through(foreign), "Deployment", "demo-web")
    after = manifest_of(output(helm, foreign, *KUEUE), "Deployment", "demo-web")
    label = after["metadata"]["labels"].pop("kueue.x-k8s.io/queue-name")

    assert "research" == label
    assert before == after
    args = manifest_of(output(helm, foreign, *KUEUE), "Job", "demo-train")["spec"]["template"][
        "spec"
    ]["containers"][1]["args"]
    assert [
        "--lr", "1e-5", "--flag", "y", "--mode", "0777", "--when", "2026-01-02", "é\u2028",
        "{{ x }}",
    ] == args  # fmt: skip


def test_the_source_comment_stays_on_changed_documents(helm: Helm, foreign: Path) -> None:
    """It tells a reader which template an object came from."""
    job = documents(output(helm, foreign, *KUEUE))["batch/v1/Job", "demo-train"]

    assert job.startswith("# Source: foreign/templates/job.yaml\n")


def test_every_pass_at_once(helm: Helm, foreign: Path) -> None:
    """The job gets all that was asked, and its PodGroup stands beside it."""
    text = output(
        helm, foreign, "--dialect=volcano", "--queue=q", "--topology-mode=required",
        "--shm-size=64Gi", "--rdma-resource=rdma/hca=1", "--restricted", "--label=team=ml",
        "--values-digest=sha256:1", "--kind=Job", "--kind=PodGroup",
    )  # fmt: skip
    job, group = manifest_of(text, "Job", "demo-train"), manifest_of(text, "PodGroup", "demo-train")
    pod = job["spec"]["template"]["spec"]
    _, trainer = pod["containers"]

    assert 4 == group["spec"]["minMember"]
    assert "lab" == group["metadata"]["namespace"]
    assert "volcano" == pod["schedulerName"]
    assert {"nvidia.com/gpu": 8, "rdma/hca": "1"} == trainer["resources"]["limits"]
    assert {"add": ["IPC_LOCK"], "drop": ["ALL"]} == trainer["securityContext"]["capabilities"]
    assert "64Gi" == pod["volumes"][0]["emptyDir"]["sizeLimit"]
    assert "ml" == job["metadata"]["labels"]["team"]
    assert "sha256:1" == job["metadata"]["annotations"]["allranks.dev/values-digest"]
    assert "postrenderer.helm.sh/postrender-filename" not in text


def test_topology_joins_the_affinity_that_is_there(helm: Helm, foreign: Path) -> None:
    """Both conditions hold of every node chosen."""
    text = output(helm, foreign, "--topology-mode=required", "--topology-value=r1")
    terms = manifest_of(text, "StatefulSet", "demo-db")["spec"]["template"]["spec"]["affinity"][
        "nodeAffinity"
    ]["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"]

    assert [["disk", "topology.kubernetes.io/rack"]] == [
        [expression["key"] for expression in term["matchExpressions"]] for term in terms
    ]


def test_the_manifest_of_a_release_is_what_template_shows(helm: Helm, foreign: Path) -> None:
    """What an install would send, without its hooks, which Helm keeps apart."""
    options = [text for option in KUEUE for text in ("--post-renderer-args", option)]
    # Helm 3 asks a cluster even for a dry run on the client.
    how = ["template", "--no-hooks"]
    if helm.major > HELM_3:
        how = ["install", "--dry-run=client", "-o", "json"]
    process = helm.run(
        *how, "demo", str(foreign), "--namespace=lab", "--post-renderer", helm.renderer, *options
    )
    assert 0 == process.returncode, process.stderr
    manifest = process.stdout if helm.major == HELM_3 else load_all(process.stdout)[0]["manifest"]
    expected = documents(output(helm, foreign, *KUEUE))
    del expected["batch/v1/Job", "demo-migrate"]

    assert expected == documents(manifest)


def test_ten_thousand_documents(helm: Helm, foreign: Path) -> None:
    """A stream of that size comes out as it went in, but for the one that was asked for."""
    values = ("many=10000",)
    before = helm.passed_through(foreign, *values).split("\n---\n")
    after = output(helm, foreign, *KUEUE, "--kind=Job", values=values).split("\n---\n")

    assert 10_000 < len(before)
    assert len(before) == len(after)
    changed = [(old, other) for old, other in zip(before, after, strict=True) if old != other]
    assert [True] == ["name: demo-train" in other for _, other in changed]


def test_a_second_post_rendering_changes_nothing(helm: Helm, foreign: Path) -> None:
    """Idempotent on what Helm printed, too."""
    text = output(helm, foreign, *KUEUE)
    once = process(text, parse(list(KUEUE)))

    assert load_all(text) == load_all(once)
    assert once == process(once, parse(list(KUEUE)))
