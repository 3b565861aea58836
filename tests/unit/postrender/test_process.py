"""The whole filter: what it may touch, what it must not, and what it refuses."""

from __future__ import annotations

import time
from typing import Any

import pytest
import yaml
from hypothesis import given, settings
from hypothesis import strategies as st

from allranks import __version__
from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, process
from allranks.postrender.edit import same
from allranks.yamlio.dump import dump
from allranks.yamlio.load import load_all

KUEUE = PostrenderOptions(dialect="kueue", queue="q")
JOB = """\
apiVersion: batch/v1
kind: Job
metadata: {name: train}
spec:
  template: {spec: {containers: [{name: c}]}}
"""
SENTINEL = """\
apiVersion: allranks.dev/v1alpha1
kind: PostRendererRequired
metadata: {name: add---post-renderer}
"""
ASKING = """\
apiVersion: apps/v1
kind: StatefulSet
metadata:
  name: s
  annotations: {allranks.dev/fabric: '{"rdma": true}'}
spec: {template: {spec: {containers: [{name: c}]}}}
"""
# Documents that a pass which changes every Job must leave exactly as they are.
FOREIGN = [
    "# nothing but a comment\n",
    "\n",
    "apiVersion: v1\nkind: ConfigMap # why\nmetadata:\n  name: c\ndata:\n  a: 1e-5\n  b: 'y'\n",
    'apiVersion: v1\r\nkind: Secret\r\nstringData:\r\n  k: "1_000"\r\n',
    "kind: ConfigMap\ndata:\n  script: |\n    if x:\n    \tindented\twith\ttabs  \n\n    \n",
    "apiVersion: example.com/v1\nkind: Trainer\nspec: &anchor {x: 0777, y: [&b z, *b]}\n",
    "base: &base\n  a: ~\nother:\n  <<: *base\n  b: 12:30:45\n",
    "kind: Job\napiVersion: batch.volcano.sh/v1alpha1\nspec: {minAvailable: 3}\n",
    "kind: Service\nmetadata:\n    name:   odd-spacing   # kept\n\n\n",
    'data:\n  pem: |\n    -----BEGIN CERTIFICATE-----\n    ---\n    -----END\n  "q": ""\n',
    "apiVersion: batch/v1\nkind: Job\nmetadata:\n  annotations: {helm.sh/hook: test}\nspec: {}\n",
    "just a string\n",
    "[1, 2]\n",
]


def test_an_empty_stream_stays_empty() -> None:
    """A chart may render nothing."""
    assert "" == process("", KUEUE)


@pytest.mark.parametrize(
    "text", ["\n", "---\n", "# Source: a\n", "---\n# a\n---\n", "\ufeff", "..."]
)
def test_a_stream_without_content_is_never_emptied(text: str) -> None:
    """Helm 4 takes an empty output for a failure, Helm 3 for an empty release."""
    assert text == process(text, KUEUE)


def test_foreign_documents_leave_as_they_came() -> None:
    """Comments, anchors, CRLF, tabs and odd spacing around a document that does change."""
    text = "---\n" + "---\n".join([*FOREIGN, JOB, *FOREIGN])
    out = process(text, KUEUE)
    parts = out.split("---\napiVersion: batch/v1\nkind: Job\nmetadata:\n  name: train\n")

    assert 2 == len(parts)
    assert "---\n" + "---\n".join(FOREIGN) == parts[0]
    assert parts[1].endswith("---\n" + "---\n".join(FOREIGN))


def test_nothing_asked_changes_nothing() -> None:
    """Without options, a stream that does not know us passes through, valid or not."""
    text = "---\n".join([*FOREIGN, JOB, "{ not: yaml\n"])

    assert text == process(text)


def test_comments_in_front_of_a_changed_document_stay() -> None:
    """Helm's Source comment is how people find the template."""
    out = process(f"---\n# Source: a/templates/job.yaml\n# by hand\n{JOB}", KUEUE)

    assert out.startswith("---\n# Source: a/templates/job.yaml\n# by hand\napiVersion: batch/v1\n")


def test_content_on_the_marker_line_moves_below_it() -> None:
    """A flow document behind its marker is printed in block style under it."""
    out = process('--- {"apiVersion": "v1", "kind": "Pod", "spec": {}}\n', KUEUE)

    assert out.startswith("---\napiVersion: v1\nkind: Pod\nspec: {}\nmetadata:\n")


def test_a_changed_document_keeps_what_stands_around_it() -> None:
    """The byte order mark, the end marker and the directives of the next document."""
    out = process(f"\ufeff---\n{JOB}... # end\n%YAML 1.1\n---\na: 1\n", KUEUE)

    assert out.startswith("\ufeff---\napiVersion")
    assert out.endswith("\n... # end\n%YAML 1.1\n---\na: 1\n")


def test_aliases_are_written_out_in_a_changed_document() -> None:
    """A pass that changes one container must not change another that shared its text."""
    text = """\
apiVersion: apps/v1
kind: Deployment
spec:
  template:
    spec:
      containers:
        - {name: a, resources: &r {limits: {nvidia.com/gpu: 1}}}
        - {name: b, resources: *r}
"""
    out = process(text, PostrenderOptions(rdma_resources=(("rdma/hca", 1),), containers=("a",)))
    first, two = yaml.safe_load(out)["spec"]["template"]["spec"]["containers"]

    assert "rdma/hca" in first["resources"]["limits"]
    assert {"limits": {"nvidia.com/gpu": 1}} == two["resources"]


def test_items_of_a_list_are_changed_in_place() -> None:
    """`kind: List` arrives unexpanded, and stays so; what its items need stands in front."""
    items = "".join("- " + part.replace("\n", "\n  ").rstrip(" ") for part in (JOB, FOREIGN[2]))
    out = list(
        yaml.safe_load_all(
            process(
                f"apiVersion: v1\nkind: List\nitems:\n{items}", PostrenderOptions(dialect="volcano")
            )
        )
    )

    assert ["PodGroup", "List"] == [manifest["kind"] for manifest in out]
    job, config = out[1]["items"]
    assert "volcano" == job["spec"]["template"]["spec"]["schedulerName"]
    assert "c" == config["metadata"]["name"]


def test_added_objects_belong_to_the_file_of_their_cause() -> None:
    """Helm 4 sorts documents back into files by this annotation, Helm 3's users by the comment."""
    filename = "postrenderer.helm.sh/postrender-filename"
    job = JOB.replace("{name: train}", f"{{name: train, annotations: {{{filename}: t/job.yaml}}}}")
    out = process(f"---\n# Source: t/job.yaml\n{job}", PostrenderOptions(dialect="coscheduling"))

    assert out.startswith("---\n# Source: t/job.yaml\napiVersion: scheduling.x-k8s.io/v1alpha1\n")
    for document in yaml.safe_load_all(out):
        assert {filename: "t/job.yaml"} == document["metadata"]["annotations"]


def test_an_added_object_in_front_of_an_unmarked_document() -> None:
    """The first document of a stream may have no marker; behind another it needs one."""
    out = process(f"\ufeff{JOB}", PostrenderOptions(dialect="coscheduling"))

    assert out.startswith("\ufeff---\n")
    assert ["PodGroup", "Job"] == [
        document["kind"] for document in yaml.safe_load_all(out.strip("\ufeff"))
    ]


# --- the sentinel ------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["first", "last", "unmarked"])
def test_the_sentinel_is_taken_out(place: str) -> None:
    """Where it stood nothing remains, and the other documents are as without it."""
    service = "---\nkind: Service\n"
    asking = f"---\n{ASKING}"
    texts = {
        "first": f"---\n# Source: s\n{SENTINEL}{service}{asking}",
        "last": f"{service}{asking}---\n# Source: s\n{SENTINEL}",
        "unmarked": f"{SENTINEL}{service}{asking}",
    }

    assert process(service + asking) == process(texts[place])


def test_a_stream_of_the_sentinel_alone_is_refused() -> None:
    """Its removal would leave an empty release, which Helm 3 would install."""
    with pytest.raises(InputError, match="no object says what for"):
        process(SENTINEL)


def test_a_sentinel_that_nobody_asks_for_is_refused() -> None:
    """The requests were lost on the way: the release would run without what was asked."""
    with pytest.raises(InputError, match="no object says what for"):
        process(f"{JOB}---\n{SENTINEL}")


def test_a_requirement_without_its_request_is_refused() -> None:
    """Each thing required has an annotation that carries it."""
    with pytest.raises(InputError, match="'scheduling' is required"):
        process(f"{ASKING}---\n{SENTINEL}requires: [fabric, scheduling]\n")
    assert "PostRendererRequired" not in process(f"{ASKING}---\n{SENTINEL}requires: [fabric]\n")


@pytest.mark.parametrize("requires", ["[fabric, telepathy]", "[1]", "telepathy"])
def test_an_unknown_requirement_is_refused(requires: str) -> None:
    """The chart is newer than this program; the hint says so."""
    with pytest.raises(InputError) as excinfo:
        process(f"{ASKING}---\n{SENTINEL}requires: {requires}\n")

    assert excinfo.value.problem.path.startswith("requires")


def test_a_sentinel_of_a_later_version_is_refused() -> None:
    """Its meaning is not known here."""
    with pytest.raises(InputError, match="newer than this program"):
        process(ASKING + "---\n" + SENTINEL.replace("v1alpha1", "v1beta1"))


# --- mistakes ----------------------------------------------------------------------------------


def test_invalid_yaml_is_refused_with_its_line_in_the_stream() -> None:
    """Not the line in the document: people look at the whole output of helm template."""
    with pytest.raises(InputError) as excinfo:
        process(f"---\n{JOB}---\n# Source: b\nkind: Pod\nspec: a: b\n", KUEUE)

    assert "stdin:10" == excinfo.value.problem.source


def test_a_malformed_workload_is_named() -> None:
    """A list where a map belongs is said with its path, kind and name."""
    with pytest.raises(InputError) as excinfo:
        process(f"a: 1\n---\n{JOB.replace('{name: train}', '{name: train, labels: [x]}')}", KUEUE)

    assert 'stdin:2, Job "train"' == excinfo.value.problem.source
    assert "metadata.labels" == excinfo.value.problem.path


@pytest.mark.parametrize(
    "text",
    [
        "kind: Pod\nspec: 3\n",
        "apiVersion: v1\nkind: Pod\n",
        "apiVersion: batch/v1\nkind: Job\nspec: {template: {}}\n",
        "apiVersion: batch/v1\nkind: Job\nmetadata: x\nspec: []\n",
        "apiVersion: 1\nkind: [Job]\n",
        "apiVersion: v1\nkind: List\nitems: null\n",
        "apiVersion: v1\nkind: List\nitems: [1, null, x]\n",
        "apiVersion: jobset.x-k8s.io/v1alpha2\nkind: JobSet\nspec: {replicatedJobs: [1]}\n",
    ],
)
def test_shapes_that_are_no_workload_pass_through(text: str) -> None:
    """The API server will say what is wrong with them; we only leave them alone."""
    assert text == process(text, KUEUE)


# --- properties --------------------------------------------------------------------------------

SCALARS = st.sampled_from(
    ["1e-5", "0777", "0o17", "y", "No", "null", "~", "12:30", "2026-01-02", "1_000", "=", "<<", "",
     " lead", "trail ", "a: b", "a #b", "#a", "é", "\U0001f600", "-", "- a", "[x", "{y", "&a", "*a",
     "!t", "|", ">", "%d", "@x", "`x", "'", '"', "\\", "line\nline", "tab\there", "end\n", "\r\n",
     "\x07", "true", ".5", "1.", "0x1F", "+1", "1e400", "9007199254740993", "on"]
)  # fmt: skip
PLAIN = st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(-1e9, 1e9) | SCALARS
TREES = st.recursive(
    PLAIN,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(SCALARS, inner, max_size=3),
    max_leaves=8,
)
OPTIONS = st.sampled_from(
    [
        KUEUE,
        PostrenderOptions(dialect="kai", queue="q", topology_mode="required", topology_name="t"),
        PostrenderOptions(dialect="volcano", queue="q", topology_mode="preferred"),
        PostrenderOptions(dialect="coscheduling", topology_mode="required", topology_values=("a",)),
        PostrenderOptions(shm_size="1Gi", rdma_resources=(("rdma/hca", 1),), restricted=True),
        PostrenderOptions(labels=(("team", "y"),), values_digest="sha256:1e5"),
    ]
)


def manifest(kind: str, extra: Any) -> dict[str, Any]:
    """A workload that carries arbitrary data of its chart."""
    group = {"Job": "batch/v1", "StatefulSet": "apps/v1", "Deployment": "apps/v1", "Pod": "v1"}
    container = {"name": "c", "env": [{"name": "X", "value": extra}]}
    pod = {"containers": [container], "x": extra}
    spec = pod if kind == "Pod" else {"template": {"spec": pod}, "extra": extra}
    return {"apiVersion": group[kind], "kind": kind, "metadata": {"name": "w"}, "spec": spec}


@given(st.sampled_from(["Job", "StatefulSet", "Deployment", "Pod"]), TREES, OPTIONS)
@settings(max_examples=150)
def test_scalars_are_never_retyped(kind: str, extra: Any, options: PostrenderOptions) -> None:
    """A changed document still holds each of its chart's values, with its type."""
    text = dump(manifest(kind, extra))
    before = load_all(text)[0]
    after = next(
        document for document in load_all(process(text, options)) if document["kind"] == kind
    )

    assert same(before["spec"].get("extra"), after["spec"].get("extra"))
    pods = [
        manifest if kind == "Pod" else manifest["template"]["spec"]
        for manifest in (before["spec"], after["spec"])
    ]
    assert same(pods[0]["x"], pods[1]["x"])
    assert same(*(pod["containers"][0]["env"] for pod in pods))


@given(
    st.lists(st.sampled_from([*FOREIGN, JOB, ASKING, f"# c\n{JOB}"]), min_size=1, max_size=6),
    st.sampled_from(["---\n", "--- # c\n", "...\n---\n", "---\r\n"]),
    OPTIONS,
)
@settings(max_examples=150)
def test_a_second_run_changes_nothing(
    documents: list[str], marker: str, options: PostrenderOptions
) -> None:
    """Idempotent to the byte, for any mixture and every option."""
    once = process(marker + marker.join(documents), options)

    assert once == process(once, options)


@given(st.lists(st.sampled_from(FOREIGN), min_size=1, max_size=5), st.integers(0, 5))
def test_untouched_documents_are_equal_to_the_byte(documents: list[str], at: int) -> None:
    """Around one document that changes, at any place."""
    at = min(at, len(documents))
    text = "---\n" + "---\n".join([*documents[:at], JOB, *documents[at:]])
    out = process(text, KUEUE)
    changed = process(f"---\n{JOB}", KUEUE)

    assert text.replace(f"---\n{JOB}", changed) == out


# --- size --------------------------------------------------------------------------------------


def test_ten_thousand_documents() -> None:
    """In order, each as it came or changed as alone, and in seconds."""
    documents = [
        JOB.replace("train", f"t{index}") if index % 10 == 0 else FOREIGN[index % len(FOREIGN)]
        for index in range(10_000)
    ]
    text = "---\n" + "---\n".join(documents)
    start = time.perf_counter()
    out = process(text, KUEUE)
    seconds = time.perf_counter() - start

    expected = "".join(
        process(f"---\n{document}", KUEUE) if index % 10 == 0 else f"---\n{document}"
        for index, document in enumerate(documents)
    )
    assert expected == out
    assert text == process(text)
    assert seconds < 20
    assert f"{__version__}" not in out
