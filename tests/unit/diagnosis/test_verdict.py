"""The verdict on a run, from what real pods said (tests/data/why) and from changes to that."""

from __future__ import annotations

import json
from copy import deepcopy
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from allranks.diagnosis import log_lines, report
from allranks.diagnosis.pods import spread
from allranks.diagnosis.verdict import Diagnosis, RunState, diagnose

if TYPE_CHECKING:
    from collections.abc import Mapping

_DATA = Path(__file__).parents[2] / "data/why"


def _recorded(name: str) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((_DATA / f"{name}.json").read_text())
    return content


def _verdict(*answers: dict[str, Any], silent: Mapping[str, str] | None = None) -> Diagnosis:
    pods = [
        report.read(f"big-{number}", f"node-{number}", json.dumps(answer).encode())
        for number, answer in enumerate(answers)
    ]
    assert None not in pods
    homes = {rank: (f"big-{rank}", "Failed") for rank in range(8)}
    return diagnose([pod for pod in pods if pod is not None], silent or {}, homes)


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("absent", "rank 1 (pod big-0, node node-0) has not entered all_reduce #4; it sleeps, "),
        ("mismatch", "the ranks are in different collectives: #2 is all_gather for rank 1"),
        ("slow", "this run makes steps, and rank 1 (pod big-0, node node-0) is slow"),
        ("healthy", "this run makes steps (46 collectives a second)"),
        ("frozen", "rank 1 (pod big-0, node node-0) is stopped, by SIGSTOP or a debugger"),
        ("fifo", "rank 1 (pod big-0, node node-0) has not entered all_reduce #2; it opens a pipe"),
        ("deadlock", "rank 1 (pod big-0, node node-0) has not entered all_reduce #2; it waits for"),
        ("stuck", "rank 1 (pod big-0, node node-0) has not entered all_reduce #2; it is in a C"),
        ("cycle", "the ranks wait for each other: rank 0 waits for rank 1 in all_reduce #1"),
    ],
)
def test_a_recorded_hang_is_named(name: str, words: str) -> None:
    """What real gangs said gives the verdict that names the rank and what it does."""
    diagnosis = _verdict(_recorded(name))
    assert words == diagnosis.sentence[: len(words)]
    assert () == diagnosis.remarks


@pytest.mark.parametrize(("name", "meanings"), [("healthy", 0), ("slow", 0), ("absent", 1)])
def test_a_run_that_makes_steps_says_nothing_of_a_peer_that_was_gone(
    name: str, meanings: int
) -> None:
    """Its log still has the lines of the attempt before; a run that stands still tells of it."""
    pod = report.read("big-0", "b2", json.dumps(_recorded(name)).encode())
    assert pod is not None
    logs = log_lines.findings([("big-0", ["RuntimeError: Connection closed by peer [10.0.0.2]"])])
    diagnosis = diagnose([pod], {}, {}, logs)
    assert meanings == len(diagnosis.logs)
    if meanings:
        assert not diagnosis.as_dict()["logs"][0]["beforeLastStart"]


def test_ranks_in_several_pods_are_compared() -> None:
    """The rank that is missing is found in another pod than those that wait for it."""
    first = _recorded("absent")
    second = {**deepcopy(first), "ranks": [first["ranks"].pop(1)]}
    second["ranks"][0]["world"] = 3
    diagnosis = _verdict(first, second)
    assert "rank 1 (pod big-1, node node-1) has not entered all_reduce #4" in diagnosis.sentence
    assert [("big-1", "node-1")] == [(place.pod, place.node) for place in diagnosis.blamed]


def test_a_wait_is_told_by_how_long_it_has_lasted() -> None:
    """As a person would say it, of one rank and of several."""
    answer = _recorded("absent")
    assert _verdict(answer).sentence.endswith("; 2 ranks have waited for 10 s")
    del answer["ranks"][2]
    for rank in answer["ranks"]:
        rank["world"] = 2
    text = json.dumps(answer).replace('"0-2"', '"0-1"')
    assert _verdict(json.loads(text)).sentence.endswith("; rank 0 has waited for 10 s")


def test_replica_groups_are_compared_by_themselves() -> None:
    """Where each pod counts its ranks from 0, the group that stands still is named."""
    answer = _recorded("absent")
    diagnosis = _verdict(answer, deepcopy(answer), silent={"big-2": "it has ended"})
    assert diagnosis.sentence.startswith("in the replica group big-0: rank 1 (pod big-0, ")
    assert {("big-0", 1)} == {(place.pod, place.rank) for place in diagnosis.blamed}
    assert "big-2: it has ended" in diagnosis.remarks


def test_a_rank_without_a_process_is_blamed() -> None:
    """A pod that is gone has no stacks; the run's status says why."""
    answer = _recorded("absent")
    del answer["ranks"][1]
    diagnosis = _verdict(answer, silent={"big-1": "it has ended"})
    assert (
        "rank 1 has no process that answers (pod big-1: Failed); 2 ranks wait in all_reduce #4"
        == diagnosis.sentence
    )
    assert ("1 pod gave no answer: big-1: it has ended",) == diagnosis.remarks


def test_other_shapes_are_named() -> None:
    """Ranks that give tensors of other shapes to one collective are told with both shapes."""
    answer = _recorded("absent")
    for rank in answer["ranks"]:
        rank["flight"] = deepcopy(answer["ranks"][0]["flight"])
        rank["before"] = rank["flight"]
    answer["ranks"][2]["flight"]["groups"]["0"]["last"][-1]["in"] = [[5, 7]]
    diagnosis = _verdict(answer)
    assert (
        "rank 2 (pod big-0, node node-0) gives float[5, 7] to all_reduce #4 (hanging.py:34 in "
        "step), and ranks 0-1 give float[3]" in diagnosis.sentence
    )


def _nccl(*states: str) -> dict[str, Any]:
    """Three ranks in the same collective of NCCL, with its state at each."""
    answer = _recorded("absent")
    flight = answer["ranks"][0]["flight"]
    for rank, state in zip(answer["ranks"], states, strict=True):
        rank["flight"] = rank["before"] = deepcopy(flight)
        for entry in rank["flight"]["groups"]["0"]["last"]:
            entry["name"] = entry["name"].replace("gloo:", "nccl:")
        rank["flight"]["groups"]["0"]["last"][-1]["state"] = state
    return answer


def test_a_gpu_that_has_not_begun_a_collective_is_named() -> None:
    """Its rank has asked for it, as all others have, whose GPUs are in it."""
    diagnosis = _verdict(_nccl("started", "scheduled", "started"))
    assert (
        "rank 1 (pod big-0, node node-0) has given all_reduce #4 to its GPU, which is still busy "
        "with what came before it; rank 1 " in diagnosis.sentence
    )
    assert (RunState.STALLED, "behind") == (diagnosis.state, diagnosis.reason)
    assert [1] == [place.rank for place in diagnosis.blamed]


def test_nccl_may_not_tell_which_gpu_it_is() -> None:
    """Without its timing all are only known to have entered the collective: the switch is said."""
    sentence = _verdict(_nccl("scheduled", "scheduled", "scheduled")).sentence
    assert "all ranks of the group have entered all_reduce #4" in sentence
    assert sentence.endswith("(TORCH_NCCL_ENABLE_TIMING=1 in `env` tells which)")


def test_all_ranks_in_one_collective_is_the_networks_fault() -> None:
    """Where nobody is missing, what carries the collective is."""
    answer = _recorded("absent")
    for rank in answer["ranks"]:
        rank["flight"] = rank["before"] = answer["ranks"][0]["flight"]
    diagnosis = _verdict(answer)
    assert RunState.STALLED is diagnosis.state
    assert "all ranks of the group have entered all_reduce #4" in diagnosis.sentence


def test_a_wait_of_a_usual_length_is_a_step() -> None:
    """A wait that is no longer than those before is no hang, and a first one is a start."""
    answer = _recorded("absent")
    for rank in answer["ranks"]:
        rank["flight"]["groups"]["0"]["times"][0][1] -= 60
        rank["before"] = rank["flight"]
    assert RunState.STEPS is _verdict(answer).state
    first = _recorded("absent")
    for rank in first["ranks"]:
        first["time"] = rank["flight"]["groups"]["0"]["times"][0][1] + 1
        for view in ("before", "flight"):
            group = rank[view]["groups"]["0"]
            group.update(completed=0, enqueued=min(1, group["enqueued"] - 3), times=[])
            group["last"] = [{**group["last"][0], "done": False}] if group["enqueued"] else []
    assert RunState.STARTING is _verdict(first).state


def test_ranks_without_torch_or_recorder_are_told_by_their_stacks() -> None:
    """No torch, a recorder that is off, and ranks that are not armed are said, and no failure."""
    answer = _recorded("absent")
    for rank in answer["ranks"]:
        rank["flight"] = rank["before"] = {"groups": {"0": {"ranks": "0-2"}}}
    diagnosis = _verdict(answer)
    assert "no rank computes, and none waits in a collective: rank 0" in diagnosis.sentence
    assert "TORCH_FR_BUFFER_SIZE=0" in diagnosis.remarks[0]
    for rank in answer["ranks"]:
        rank.update(flight=None, before=None, answers=False, armed=False, stacks="", cpu=1.0)
    diagnosis = _verdict(answer)
    assert RunState.UNKNOWN is diagnosis.state
    assert "ranks 0-2 compute, and there is no flight recorder" in diagnosis.sentence
    assert "ranks 0-2 cannot be asked" in diagnosis.remarks[0]


def test_an_answer_that_is_none_is_no_error() -> None:
    """Answers of other versions, and rubbish, are read as far as they go."""
    for text in (b"", b"[]", b"{}", b"[" * 100_000, b'{"ranks": 3}'):
        assert report.read("big-0", "", text) is None
    odd = b'{"ranks": [{"rank": "x", "flight": {"groups": {"0": [1]}}, "stacks": 4, "cpu": "y"}]}'
    pod = report.read("big-0", "", odd)
    assert pod is not None
    assert RunState.UNKNOWN is diagnose([pod], {}, {}).state
    assert diagnose([], {}, {}).sentence.startswith("no rank runs in its pods: ")
    silent = {f"big-{n}": f"the server forbids exec into big-{n}" for n in range(3)} | {"a": "x"}
    assert (
        "4 pods could not be asked: big-0, big-1, big-2: the server forbids exec into POD; a: x"
        == diagnose([], silent, {}).sentence
    )


def test_the_rank_of_two_thousand_is_named() -> None:
    """Ranks that do the same are one line, however many there are."""
    kind = _recorded("absent")
    texts = [json.dumps({**kind, "ranks": [rank]}) for rank in kind["ranks"][:2]]
    pods = []
    for number in range(2000):
        text = texts[number == 471]
        text = text.replace('"world": 3', '"world": 2000').replace('"0-2"', '"0-1999"')
        text = text.replace(f'"rank": {int(number == 471)},', f'"rank": {number},')
        pods.append(report.read(f"big-{number}", "", text.encode()))
    answers = [pod for pod in pods if pod is not None]
    diagnosis = diagnose(answers, {}, {})
    assert "rank 471 (pod big-471) has not entered all_reduce #4" in diagnosis.sentence
    assert "1999 ranks have waited for" in diagnosis.sentence
    assert [1, 1999] == [len(group.ranks) for group in diagnosis.groups]
    # Nothing is claimed of a rank whose pod was not asked.
    skipped_pods = frozenset(f"big-{number}" for number in range(100, 2000))
    homes = {number: (f"big-{number}", "") for number in range(2000)}
    diagnosis = diagnose(answers[:100], {}, homes, skipped_pods=skipped_pods)
    assert ("notAsked", ()) == (diagnosis.reason, diagnosis.blamed)
    assert "the rank that has not entered it is in a pod that was not asked" in diagnosis.sentence
    assert "100 of 2000 pods were asked" in diagnosis.remarks[-1]
    diagnosis = diagnose([*answers[:100], answers[471]], {}, {}, skipped_pods=skipped_pods)
    assert "rank 471 (pod big-471) has not entered all_reduce #4" in diagnosis.sentence
    # One that was asked, or that the cluster shows to have ended, is lost none the less.
    homes[7] = ("big-7", "its process has ended")
    diagnosis = diagnose(answers[:7] + answers[8:100], {}, homes, skipped_pods=skipped_pods)
    assert "rank 7 has no process that answers (pod big-7: its process" in diagnosis.sentence


def test_few_pods_of_many_are_from_all_over_the_run() -> None:
    """The first is asked first, and all are asked where there is time."""
    order = spread(list(map(str, range(10))))
    assert ["0", "8", "4", "2", "6", "1", "3", "5", "7", "9"] == order
    assert [] == spread([])
