"""The flight recorders of torch, of which there is more than one (sitecustomize.py, why.py)."""

from __future__ import annotations

import json
import sys
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from tests.modules import CHARTS, load

if TYPE_CHECKING:
    from collections.abc import Callable

_FILES = CHARTS / "torchrun/files"


def _entry(backend: str, number: int, group: str = "0", state: str = "scheduled") -> dict[str, Any]:
    return {
        "process_group": [group, "default_pg"],
        "profiling_name": f"{backend}:all_reduce",
        "collective_seq_id": number,
        "state": state,
        "retired": state == "completed",
        "time_created_ns": number * 10**9,
        "input_sizes": [[3]],
        "input_dtypes": ["Float"],
        "is_p2p": False,
    }


def _trace(*entries: dict[str, Any]) -> bytes:
    return json.dumps({"version": "2.10", "entries": list(entries)}).encode()


def _older(backend: str = "") -> bytes:
    """The recorder of gloo, of a torch that has no others (2.8 to 2.11): it takes no backend."""
    if backend:
        raise TypeError("incompatible function arguments")
    return _trace(_entry("gloo", 4, "1"))


def _newer(backend: str = "gloo") -> bytes:
    """The recorders of a torch that has one for each backend (2.15)."""
    numbers = {"gloo": 4, "xccl": 6}
    entries = [_entry(backend, numbers[backend], "1")] if backend in numbers else []
    return _trace(*entries)


def _groups(
    monkeypatch: pytest.MonkeyPatch,
    nccl: Callable[[], bytes] | None,
    other: Callable[..., bytes] | None,
    backends: str = "nccl",
) -> dict[str, Any]:
    """What `why` reads of a process with these recorders; groups 0 and 1 have ranks 0 and 1."""
    dumps = {"_dump_nccl_trace_json": nccl, "_dump_fr_trace_json": other}
    monkeypatch.setitem(
        sys.modules,
        "torch._C._distributed_c10d",
        SimpleNamespace(**{name: dump for name, dump in dumps.items() if dump is not None}),
    )
    world = SimpleNamespace(
        pg_group_ranks={"first": {0: 0, 1: 1}, "second": {0: 0, 1: 1}},
        pg_names={"first": "0", "second": "1"},
        pg_map={"first": (backends, None), "second": ("gloo", None)},
    )
    module = SimpleNamespace(_world=world)
    monkeypatch.setitem(sys.modules, "torch.distributed.distributed_c10d", module)
    flight = load(_FILES / "sitecustomize.py").flight()
    shortened: dict[str, Any] = load(_FILES / "why.py").shortened(flight)
    return shortened


def _enqueued(shortened: dict[str, Any]) -> dict[str, int]:
    return {name: group["enqueued"] for name, group in shortened["groups"].items()}


@pytest.mark.parametrize("other", [_older, _newer])
def test_nccl_and_gloo_have_a_recorder_each(
    monkeypatch: pytest.MonkeyPatch, other: Callable[..., bytes]
) -> None:
    """A torch with CUDA records NCCL's collectives where gloo's are not, and both are read."""
    shortened = _groups(monkeypatch, lambda: _trace(_entry("nccl", 7)), other)
    assert {"0": 7, "1": 4} == _enqueued(shortened)


def test_other_backends_have_their_own_where_torch_has_them(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The recorder of each backend that a process group has is asked for by its name."""
    shortened = _groups(monkeypatch, _trace, _newer, "cpu:gloo,xpu:xccl")
    assert {"0": 0, "1": 4, "1 (xccl)": 6} == _enqueued(shortened)


def test_a_group_of_two_backends_counts_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """A group of `cpu:gloo,cuda:nccl` numbers the collectives of each from 1."""
    shortened = _groups(
        monkeypatch,
        lambda: _trace(_entry("nccl", 7)),
        lambda: _trace(_entry("gloo", 3)),
        "cpu:gloo,cuda:nccl",
    )
    assert {"0": 7, "0 (gloo)": 3, "1": 0} == _enqueued(shortened)
    assert "0-1" == shortened["groups"]["0 (gloo)"]["ranks"]


def test_a_torch_of_one_recorder_is_read_as_ever(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.8 there is NCCL's alone; a build without CUDA has gloo's alone."""
    assert 7 == _enqueued(_groups(monkeypatch, lambda: _trace(_entry("nccl", 7)), None))["0"]
    assert 4 == _enqueued(_groups(monkeypatch, None, _newer))["1"]


def test_a_recorder_that_fails_hides_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error of one is not the end of the look."""

    def broken() -> bytes:
        raise RuntimeError("CUDA error: unspecified launch failure")

    assert 4 == _enqueued(_groups(monkeypatch, broken, _newer))["1"]
    problem = _groups(monkeypatch, broken, None)["problem"]
    assert "its flight recorder cannot be asked: CUDA error: unspecified launch failure" == problem


def test_a_torch_without_a_recorder_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before 2.5 there is none that can be asked."""
    problem = _groups(monkeypatch, None, None)["problem"]
    assert "this torch has no flight recorder that can be asked" == problem
