"""Options: what the command line says is what the passes get."""

from __future__ import annotations

import pytest

from allranks.errors import InputError
from allranks.postrender import PostrenderOptions
from allranks.postrender.arguments import parse

EVERYTHING = {
    "dialect": ("--dialect=kueue", "kueue"),
    "queue": ("--queue=q", "q"),
    "priority_class": ("--priority-class=p", "p"),
    "gang_min": ("--gang-min=3", 3),
    "gang_timeout": ("--gang-timeout=60", 60),
    "scheduler_name": ("--scheduler-name=s", "s"),
    "topology_mode": ("--topology-mode=required", "required"),
    "topology_level": ("--topology-level=block", "block"),
    "topology_key": ("--topology-key=a/b", "a/b"),
    "topology_name": ("--topology-name=t", "t"),
    "topology_tier": ("--topology-tier=2", 2),
    "topology_values": ("--topology-value=r1 --topology-value=r2", ("r1", "r2")),
    "shm_size": ("--shm-size=8Gi", "8Gi"),
    "rdma": ("--rdma", True),
    "rdma_resources": ("--rdma-resource=a/b=1", (("a/b", 1),)),
    "containers": ("--container=c", ("c",)),
    "restricted": ("--restricted", True),
    "labels": ("--label=a=1 --label=b=x=y", (("a", "1"), ("b", "x=y"))),
    "kinds": ("--kind=Job --kind=Pod", ("Job", "Pod")),
    "names": ("--name=n", ("n",)),
    "values_digest": ("--values-digest=sha256:1", "sha256:1"),
}  # fmt: skip


def test_every_option_has_an_argument() -> None:
    """And this test has every option."""
    assert set(PostrenderOptions().__dict__) == set(EVERYTHING)


@pytest.mark.parametrize("field", EVERYTHING)
def test_an_argument_sets_its_option(field: str) -> None:
    """Exactly that one."""
    text, expected = EVERYTHING[field]
    needs = ["--topology-mode=required"] if field == "topology_values" else []
    options = parse([*text.split(), *needs])

    assert expected == getattr(options, field)
    defaults = PostrenderOptions()
    changed = {name for name, value in vars(options).items() if value != getattr(defaults, name)}
    assert {field, *(["topology_mode"] if needs else [])} == changed


def test_options_are_values() -> None:
    """Equal by their fields, usable as keys, and never written to."""
    assert PostrenderOptions(queue="a") == PostrenderOptions(queue="a")
    assert PostrenderOptions(queue="a") != PostrenderOptions(queue="b")
    assert 1 == len({PostrenderOptions(queue="a"), PostrenderOptions(queue="a")})
    assert "queue='a'" in repr(PostrenderOptions(queue="a"))
    with pytest.raises(AttributeError, match="read-only"):
        PostrenderOptions().queue = "a"  # type: ignore[misc]
    with pytest.raises(TypeError, match="no field"):
        PostrenderOptions(quue="a")  # type: ignore[call-arg]


@pytest.mark.parametrize("options", [{"dialect": "x"}, {"gang_min": -1}, {"topology_level": "row"}])
def test_impossible_options_are_refused_at_once(options: dict[str, str]) -> None:
    """Before any manifest is read."""
    with pytest.raises(InputError):
        PostrenderOptions(**options)  # type: ignore[arg-type]
