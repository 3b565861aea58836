"""Slurm's forms of times, memory, nodes, GPUs, arrays and signals."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from allranks.convert.slurm import amounts, job

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90", 5400),
        ("90:30", 5460),
        ("1:30:00", 5400),
        ("2-12", 216000),
        ("2-12:30", 217800),
        ("2-12:30:15", 217860),
        ("0", 0),
        ("UNLIMITED", 0),
        ("soon", None),
        ("1:2:3:4", None),
    ],
)
def test_a_time_has_the_forms_of_the_manual(text: str, seconds: int | None) -> None:
    """minutes, minutes:seconds, h:m:s, days-hours, days-h:m and days-h:m:s."""
    assert seconds == amounts.seconds(text)


@pytest.mark.parametrize(
    ("text", "written"),
    [("4096", "4Gi"), ("100", "100Mi"), ("64G", "64Gi"), ("1T", "1024Gi"), ("500K", "1Mi")],
)
def test_memory_is_in_mebibytes_unless_it_says_otherwise(text: str, written: str) -> None:
    """A number alone is MB, which Slurm counts by 1024."""
    amount = amounts.mebibytes(text)
    assert amount is not None
    assert written == amounts.memory(amount)


@pytest.mark.parametrize("count", ["-3", "+2", "4.5", "0x4"])
def test_what_is_no_number_of_gpus_is_no_type_of_theirs(count: str) -> None:
    """No site calls its GPUs so."""
    assert amounts.gres(f"gpu:{count}") is None
    assert amounts.gpus(count) is None


@pytest.mark.parametrize(
    ("text", "count", "types", "others"),
    [
        ("gpu:4", 4, ("",), ()),
        ("gpu", 1, ("",), ()),
        ("gpu:a100:8", 8, ("a100",), ()),
        ("gpu:A100", 1, ("a100",), ()),
        ("gpu:a100:2,gpu:v100:2,nvme:1", 4, ("a100", "v100"), ("nvme:1",)),
        ("gres/gpu:2", 2, ("",), ()),
        ("gpu:2(S:0-1)", 2, ("",), ()),
        ("none", 0, (), ()),
    ],
)
def test_gres_asks_for_gpus_of_types_and_for_other_things(
    text: str, count: int, types: tuple[str, ...], others: tuple[str, ...]
) -> None:
    """A type and a number may be left out, and several kinds are separated by commas."""
    assert amounts.Gpus(count, types, others) == amounts.gres(text)


@pytest.mark.parametrize(
    ("text", "array"),
    [
        ("0-3", amounts.Array((0, 1, 2, 3), 1, 0)),
        ("0-15:4%2", amounts.Array((0, 4, 8, 12), 4, 2)),
        ("1,3,5-6", amounts.Array((1, 3, 5, 6), 0, 0)),
        ("7", amounts.Array((7,), 0, 0)),
        ("3-1", None),
        ("a-b", None),
        ("0-99999999", None),
    ],
)
def test_an_array_has_lists_ranges_steps_and_a_limit(
    text: str, array: amounts.Array | None
) -> None:
    """As --array takes them."""
    assert array == amounts.array(text)


@pytest.mark.parametrize(
    ("text", "signal"),
    [
        ("USR1", amounts.Signal("USR1", 60, to_script=False)),
        ("B:SIGUSR1@120", amounts.Signal("USR1", 120, to_script=True)),
        ("R:10@30", amounts.Signal("USR1", 30, to_script=False)),
        ("@x", None),
        ("TERM@65536", None),
    ],
)
def test_a_signal_has_a_name_and_a_time(text: str, signal: amounts.Signal | None) -> None:
    """By name or number, 60 seconds before the end where nothing is said."""
    assert signal == amounts.signal(text)


@pytest.mark.parametrize(
    ("text", "span"),
    [("4", (4, 4)), ("2-4", (2, 4)), ("1k", (1024, 1024)), ("4,8", (4, 8)), ("x", None)],
)
def test_nodes_are_a_number_or_a_range(text: str, span: tuple[int, int] | None) -> None:
    """The fewest and the most."""
    assert span == amounts.nodes(text)


@pytest.mark.parametrize(
    "form",
    [amounts.seconds, amounts.mebibytes, amounts.number, amounts.nodes, amounts.gpus, amounts.gres,
     amounts.array, amounts.signal],
)  # fmt: skip
@given(text=st.text(st.sampled_from("0123456789-:,%kKGgpu@B =[]()x٣²")))
def test_no_text_breaks_a_form(form: Callable[[str], object], text: str) -> None:
    """What is none of a form is None."""
    form(text)


@pytest.mark.parametrize(("memory", "is_noted"), [("1000M", True), ("16G", False)])
def test_a_small_pod_is_told_what_the_launcher_holds(memory: str, *, is_noted: bool) -> None:
    """A program that needs all of it would be killed."""
    text = f"#!/bin/bash\n#SBATCH -n 1 --mem={memory}\npython a.py\n"
    notes = job.convert(text.encode(), "job.sbatch").notes
    assert any("the launcher is in the pod as well" in note for note in notes) is is_noted
