"""What `allranks upgrade` says of what cannot change."""

from __future__ import annotations

from allranks.cli.commands.upgrade import refusal
from allranks.cluster import paths
from allranks.cluster.upgrade import Change, Obstacle

IMAGE = "spec.replicaSpecs.worker.template.spec.containers[trainer].image"


def test_a_new_template_of_an_elastic_job_is_refused_with_the_reason() -> None:
    """The field, both values, why not, and what does it."""
    change = Change(IMAGE, "x:1", "x:2")
    keeps = "pods that run keep the old template"
    obstacle = Obstacle("ElasticJob", "demo", paths.ELASTIC_JOBS, (change,), "", keeps)
    (problem,) = refusal("demo", [obstacle]).problems
    assert f"ElasticJob/demo {IMAGE}" == problem.path
    assert "cannot change while it runs: pods that run keep the old template: x:1 -> x:2" == (
        problem.message
    )
    assert problem.hint is not None
    assert "`allranks upgrade demo --recreate`" in problem.hint


def test_what_the_server_refuses_besides_is_said_too() -> None:
    """A conflict over the object is not hidden behind the templates."""
    change = Change(IMAGE, "x:1", "x:2")
    obstacle = Obstacle("ElasticJob", "demo", paths.ELASTIC_JOBS, (change,), "no", "they keep")
    problems = refusal("demo", [obstacle]).problems
    assert [False, True] == [bool(problem.hint) for problem in problems]  # the same fix, once
    messages = [problem.message for problem in problems]
    assert [
        "cannot change while it runs: they keep: x:1 -> x:2",
        "cannot change as asked: no",
    ] == messages
