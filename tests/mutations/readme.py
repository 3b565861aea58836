"""The table of README.md: which test catches which fault."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from allranks.yamlio.load import load
from tests.mutations.results import BINARY

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from tests.mutations.faults import Fault
    from tests.mutations.results import Result

README = Path(__file__).with_name("README.md")
BEFORE = Path(__file__).with_name("before.yaml")
BEGIN = "<!-- Made by `python -m tests.mutations --write`; edit faults.yaml. -->\n"
END = "<!-- end -->\n"


def write(faults: Iterable[Fault], results: Sequence[Result]) -> None:
    """Write the table.

    Args:
        faults: all of them, in their order.
        results: those of a run without, and of templates also with, the helm binary.
    """
    head, _, rest = README.read_text(encoding="utf-8").partition(BEGIN)
    _, _, foot = rest.partition(END)
    table = "".join(f"{line}\n" for line in _lines(faults, results))
    README.write_text(f"{head}{BEGIN}{table}{END}{foot}", encoding="utf-8")


def _lines(faults: Iterable[Fault], results: Sequence[Result]) -> Iterable[str]:
    caught = {result.name: result.caught_by for result in results if result.helm != BINARY}
    by_binary = {result.name: result.caught_by for result in results if result.helm == BINARY}
    earlier_tests = load(BEFORE.read_bytes(), str(BEFORE)).data
    area = ""
    for fault in faults:
        if fault.area != area:
            area = fault.area
            yield from ("", f"### {area}", "")
            yield "| fault | what a user would notice | caught by | before |"
            yield "| --- | --- | --- | --- |"
        test = _cell(caught[fault.name])
        if by_binary.get(fault.name, caught[fault.name]) != caught[fault.name]:
            test += f"; with the helm binary {_cell(by_binary[fault.name])}"
        before = _earlier_cell(earlier_tests.get(fault.name), caught[fault.name])
        yield f"| `{fault.name}` | {fault.breaks} | {test} | {before} |"
    yield ""


def _earlier_cell(earlier: str | None, test: str) -> str:
    """The test that caught a fault in the older code, or why none did, beside today's test."""
    if earlier is None:
        return "not tried"
    if "::" not in earlier:
        return earlier
    return "the same" if _function(earlier) == _function(test) else _cell(earlier)


def _function(test: str) -> str:
    """The name of a test, without its file and its parameters."""
    return test.partition("::")[2].partition("[")[0]


def _cell(test: str) -> str:
    """A test as a cell of a table, where a bar would end it."""
    if not test:
        return "**survived**"
    return "`" + test.removeprefix("tests/").replace("|", "\\|").replace("`", "'") + "`"
