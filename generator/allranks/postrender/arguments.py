"""Parse plain command lines fast: known options, each with its value.

Everything else (``--help``, mistakes, what only argparse understands) is `parser`'s, for importing
argparse costs start-up time. A test holds the two equal.
"""

from __future__ import annotations

from allranks.postrender.options import PostrenderOptions

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


def parse(argv: list[str]) -> PostrenderOptions:
    """Read the command line; the report file is `report_of`'s to find.

    Args:
        argv: the arguments, without the program's name.

    Returns:
        The options.

    Raises:
        InputError: an argument is wrong.
    """
    values = _plain(argv)
    if values is None:
        from allranks.postrender import parser

        values = parser.parse(argv)
    values.pop("report", None)
    pairs = values.get("rdma_resources", ())
    values["rdma_resources"] = tuple((key, _amount(value)) for key, value in pairs)
    return PostrenderOptions(**{name: _frozen(value) for name, value in values.items()})


def report_of(argv: list[str]) -> str:
    """The report file, even of a command line with errors; "" for none."""
    for index, argument in enumerate(argv):
        if argument.startswith("--report="):
            return argument.removeprefix("--report=")
        if argument == "--report" and index + 1 < len(argv):
            return argv[index + 1]
    return ""


def _plain(argv: list[str]) -> dict[str, Any] | None:
    """The fields of a plain command line; None where it needs argparse."""
    values: dict[str, Any] = {}
    words = iter(argv)
    for word in words:
        if word in SWITCHES:
            values[SWITCHES[word]] = True
            continue
        flag, equals, value = word.partition("=")
        if not equals:
            value = next(words, "-")
            if value.startswith("-"):
                return None
        if not _take(values, flag, value):
            return None
    return values


def _take(values: dict[str, Any], flag: str, value: str) -> bool:
    """Store the value of a flag; False where the flag or value is not plain."""
    if flag in TEXTS:
        values[TEXTS[flag]] = value
    elif flag in LISTS:
        values.setdefault(LISTS[flag], []).append(value)
    elif flag in NUMBERS and value.isascii() and value.isdigit():
        values[NUMBERS[flag]] = int(value)
    elif flag in PAIRS:
        key, equals, text = value.partition("=")
        if not key or not equals:
            return False
        values.setdefault(PAIRS[flag], []).append((key, text))
    else:
        return False
    return True


def _amount(text: str) -> int | str:
    return int(text) if text.isascii() and text.isdigit() else text


def _frozen(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value
