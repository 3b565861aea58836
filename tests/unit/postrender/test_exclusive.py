"""Keys of which a scheduler takes one: whatever is there already, no second one is written."""

from __future__ import annotations

from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from allranks.errors import InputError
from allranks.postrender import PostrenderOptions, process

KUEUE = "kueue.x-k8s.io/podset-{}-topology"
KUEUE_TOPOLOGY = tuple(KUEUE.format(mode) for mode in ("required", "preferred", "unconstrained"))
KAI_PLACEMENT = (
    "kai.scheduler/topology-required-placement",
    "kai.scheduler/topology-preferred-placement",
)
VOLCANO_GROUP = ("scheduling.k8s.io/group-name", "scheduling.volcano.sh/group-name")
VOLCANO_OWN = ("scheduling.volcano.sh/group-min-member", "scheduling.volcano.sh/queue-name")
# The annotations of which one may be there, by dialect and place: the object's, the pods'.
EXCLUSIVE = {
    "kueue": ((), KUEUE_TOPOLOGY),
    "kai": (KAI_PLACEMENT, ()),
    "volcano": ((), VOLCANO_GROUP),
}
KEYS = (*KUEUE_TOPOLOGY, *KAI_PLACEMENT, *VOLCANO_GROUP, *VOLCANO_OWN, "kai.scheduler/topology")


def existing() -> st.SearchStrategy[dict[str, str]]:
    """Annotations as a foreign chart may have them."""
    values = st.sampled_from(["train", "2", "rack", "true"])
    return st.dictionaries(st.sampled_from(KEYS), values, max_size=5)


def manifests() -> st.SearchStrategy[dict[str, Any]]:
    """A Job or a StatefulSet of four pods with such annotations."""

    def build(kind: str, own: dict[str, str], pods: dict[str, str]) -> dict[str, Any]:
        spec: dict[str, Any] = {
            "template": {
                "metadata": {"annotations": pods},
                "spec": {"containers": [{"name": "x", "image": "x"}]},
            }
        }
        if kind == "Job":
            spec |= {"parallelism": 4, "completions": 4}
        else:
            spec |= {"replicas": 4, "podManagementPolicy": "Parallel"}
        group = "batch/v1" if kind == "Job" else "apps/v1"
        metadata = {"name": "train", "annotations": own}
        return {"apiVersion": group, "kind": kind, "metadata": metadata, "spec": spec}

    return st.builds(build, st.sampled_from(["Job", "StatefulSet"]), existing(), existing())


@given(
    manifest=manifests(),
    dialect=st.sampled_from(sorted(EXCLUSIVE)),
    mode=st.sampled_from(["required", "preferred"]),
    least=st.sampled_from([0, 2, 4]),
)
def test_one_of_the_exclusive_keys_is_left(
    manifest: dict[str, Any], dialect: str, mode: str, least: int
) -> None:
    """What is asked replaces what is there, or is refused; a second run changes nothing."""
    options = PostrenderOptions(
        dialect=dialect, queue="research", topology_mode=mode, topology_name="dc", gang_min=least
    )
    text = yaml.safe_dump(manifest)
    pods = manifest["spec"]["template"]["metadata"]["annotations"]
    if dialect == "volcano" and any(pods.get(key, "train") != "train" for key in VOLCANO_GROUP):
        with pytest.raises(InputError, match="not ours to change"):
            process(text, options)
        return

    once = process(text, options)
    assert once == process(once, options)
    *added, out = yaml.safe_load_all(once)
    own, pods = out["metadata"]["annotations"], out["spec"]["template"]["metadata"]["annotations"]
    for exclusive, place in zip(EXCLUSIVE[dialect], (own, pods), strict=True):
        if exclusive:
            (key,) = [key for key in exclusive if key in place]
            assert dialect == "volcano" or mode in key
    if dialect == "volcano":
        # The PodGroup says the queue and the gang, and nothing beside it does.
        (group,) = added
        assert "research" == group["spec"]["queue"]
        assert not {*own, *pods} & {*VOLCANO_OWN}
    if dialect == "kai" and manifest["kind"] == "Job":
        assert str(least or 4) == own["kai.scheduler/batch-min-member"]


def job(own: dict[str, str] | None = None, **pods: Any) -> dict[str, Any]:
    """A Job of four pods whose pods have some metadata."""
    return {
        "apiVersion": "batch/v1",
        "kind": "Job",
        "metadata": {"name": "train", "annotations": own or {}},
        "spec": {
            "parallelism": 4,
            "template": {"metadata": pods, "spec": {"containers": [{"name": "x"}]}},
        },
    }


def rendered(*manifests: dict[str, Any], **options: Any) -> list[dict[str, Any]]:
    """The objects that come out; a second run must change nothing."""
    once = process(yaml.safe_dump_all(manifests, sort_keys=False), PostrenderOptions(**options))
    assert once == process(once, PostrenderOptions(**options))
    return list(yaml.safe_load_all(once))


def test_kueue_replaces_the_queue_that_an_annotation_named() -> None:
    """Early versions of Kueue had the queue there, and later ones still read it."""
    key = "kueue.x-k8s.io/queue-name"
    (out,) = rendered(job({key: "slow"}), dialect="kueue", queue="fast")

    assert {key: "fast"} == out["metadata"]["labels"]
    assert key not in out["metadata"]["annotations"]


def test_volcano_takes_what_the_chart_asks_by_annotation_into_the_pod_group() -> None:
    """Without an option the chart's own queue and gang hold, and are said once."""
    annotations = {VOLCANO_OWN[0]: "2", VOLCANO_OWN[1]: "slow"}
    group, out = rendered(job(annotations), dialect="volcano")

    assert {"minMember": 2, "queue": "slow"} == group["spec"]
    assert {} == out["metadata"]["annotations"]


GROUPS = {
    "volcano": ("annotations", "scheduling.k8s.io/group-name"),
    "kai": ("annotations", "pod-group-name"),
    "coscheduling": ("labels", "scheduling.x-k8s.io/pod-group"),
}


@pytest.mark.parametrize("dialect", GROUPS)
def test_pods_in_a_group_of_the_charts_stay_in_it(dialect: str) -> None:
    """No second group is made; what would have to be said in theirs is refused."""
    place, key = GROUPS[dialect]
    manifest = job(**{place: {key: "theirs"}})
    (out,) = rendered(manifest, dialect=dialect)

    assert "theirs" == out["spec"]["template"]["metadata"][place][key]
    with pytest.raises(InputError, match="'theirs', which is not ours to change"):
        rendered(manifest, dialect=dialect, gang_min=2)


def test_a_pod_group_that_says_something_else_is_not_taken_for_ours() -> None:
    """A queue that is asked for is never lost to a PodGroup of the same name."""
    theirs = {
        "apiVersion": "scheduling.volcano.sh/v1beta1",
        "kind": "PodGroup",
        "metadata": {"name": "train"},
        "spec": {"minMember": 4, "queue": "slow"},
    }
    with pytest.raises(InputError, match="queue of its PodGroup is 'slow'"):
        rendered(theirs, job(), dialect="volcano", queue="fast")

    group, _ = rendered(theirs, job(), dialect="volcano", queue="slow")
    assert theirs == group
