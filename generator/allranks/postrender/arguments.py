"""The command line, as nearly everybody writes it: known options, each with its value.

Everything else (``--help``, mistakes, what only argparse understands) is `parser`'s, for importing
argparse costs start-up time. A test holds the two equal.
"""

from __future__ import annotations

from allranks.postrender.options import Options

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

# By flag: the field of `Options`.
TEXTS = {
    "--dialect": "dialect",
    "--queue": "queue",
    "--priority-class": "priority_class",
    "--scheduler-name": "scheduler_name",
    "--topology-mode": "topology_mode",
    "--topology-level": "topology_level",
    "--topology-key": "topology_key",
    "--topology-name": "topology_name",
    "--shm-size": "shm_size",
    "--values-digest": "values_digest",
    "--report": "report",
}
NUMBERS = {
    "--gang-min": "gang_min",
    "--gang-timeout": "gang_timeout",
    "--topology-tier": "topology_tier",
}
LISTS = {
    "--topology-value": "topology_values",
    "--container": "containers",
    "--kind": "kinds",
    "--name": "names",
}
PAIRS = {"--label": "labels", "--rdma-resource": "rdma_resources"}
SWITCHES = {"--rdma": "rdma", "--restricted": "restricted"}


def parse(argv: list[str]) -> Options:
    """Read the command line; the report file is `report_of`'s to find.

    Args:
        argv: the arguments, without the program's name.

    Returns:
        The options.

    Raises:
        InputError: an argument is wrong.
    """
    given = _plain(argv)
    if given is None:
        from allranks.postrender import parser  # noqa: PLC0415 - argparse costs start-up time

        given = parser.parse(argv)
    given.pop("report", None)
    pairs = given.get("rdma_resources", ())
    given["rdma_resources"] = tuple((key, _amount(value)) for key, value in pairs)
    return Options(**{name: _frozen(value) for name, value in given.items()})


def report_of(argv: list[str]) -> str:
    """The report file, also of a command line that is wrong otherwise; "" for none."""
    for index, argument in enumerate(argv):
        if argument.startswith("--report="):
            return argument.removeprefix("--report=")
        if argument == "--report" and index + 1 < len(argv):
            return argv[index + 1]
    return ""


def _plain(argv: list[str]) -> dict[str, Any] | None:
    """The fields of a plain command line; None where it is not one."""
    given: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        if word in SWITCHES:
            given[SWITCHES[word]] = True
            continue
        flag, equals, value = word.partition("=")
        if not equals:
            value = next(words, "-")
            if value.startswith("-"):
                return None
        if not _take(given, flag, value):
            return None
    return given


def _take(given: dict[str, Any], flag: str, value: str) -> bool:
    """Take the value of a flag; False where either is not plain."""
    if flag in TEXTS:
        given[TEXTS[flag]] = value
    elif flag in LISTS:
        given.setdefault(LISTS[flag], []).append(value)
    elif flag in NUMBERS and value.isascii() and value.isdigit():
        given[NUMBERS[flag]] = int(value)
    elif flag in PAIRS:
        key, equals, text = value.partition("=")
        if not key or not equals:
            return False
        given.setdefault(PAIRS[flag], []).append((key, text))
    else:
        return False
    return True


def _amount(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
