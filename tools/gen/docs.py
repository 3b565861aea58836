"""Write the reference pages that follow from the schemas, the defaults and the rules.

    docs/reference/values-<workload>.md   every key, with its form, default and meaning
    docs/reference/checks.md              the rules between values
    charts/<workload>/README.md           the keys that values.yaml has
    docs/guides/migrate-slurm.md          in it, the table of options

With ``--check`` nothing is written; the exit code is 1 where a page is stale.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from allranks import names
from allranks.convert.slurm import options
from allranks.schema import bundle
from allranks.values import check
from allranks.values.sources import defaults

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[2]
_UNSET = object()
_KINDS = {
    "string": "string",
    "integer": "whole number",
    "number": "number",
    "boolean": "true or false",
    "array": "list",
    "object": "map",
}
_SLURM_GUIDE = "docs/guides/migrate-slurm.md"
_OPTIONS = (
    "<!-- options: made by `make gen-docs` from generator/allranks/convert/slurm/options.py; "
    "edit that. -->"
)
_OPTIONS_END = "<!-- options end -->"
# The page names a file's own source, so that nobody edits it by hand.
_NOTICE = "<!-- Made by `make gen-docs` from {source}; edit that. -->\n"


@dataclass(frozen=True, slots=True)
class Key:
    """One key of the values.

    Attributes:
        path: dotted, with ``[]`` for the items of a list and ``*`` for a user's own key.
        node: its schema, references merged.
        default: its default; `_UNSET` where it has none.
        like: the key at the root whose keys it has too; "" where it has its own.
    """

    path: str
    node: dict[str, Any]
    default: Any
    like: str = ""


def keys(workload: str) -> Iterator[Key]:
    """Every key that a values file may have, in the order of values.yaml."""
    node, base = bundle.source(workload)
    root = {schema["$ref"]: key for key, schema in node["properties"].items() if "$ref" in schema}
    yield from _keys(node, base, "", defaults(workload), root)


def _keys(
    node: dict[str, Any], base: str, above: str, chart_defaults: Any, root: dict[str, str]
) -> Iterator[Key]:
    properties = node.get("properties", {})
    order = list(chart_defaults) if isinstance(chart_defaults, dict) else []
    for key in sorted(properties, key=lambda key: order.index(key) if key in order else len(order)):
        schema, home = _merged(properties[key], base)
        path = f"{above}.{key}" if above else key
        default = chart_defaults.get(key, _UNSET) if isinstance(chart_defaults, dict) else _UNSET
        like = root.get(properties[key].get("$ref", ""), "") if above and _nests(schema) else ""
        yield Key(path, schema, default, like)
        if like:
            continue
        yield from _keys(schema, home, path, default, root)
        for inner, mark in (
            (schema.get("items"), "[]"),
            (schema.get("additionalProperties"), ".*"),
        ):
            if isinstance(inner, dict):
                item, item_home = _merged(inner, home)
                yield from _keys(item, item_home, f"{path}{mark}", _UNSET, root)


def _nests(node: dict[str, Any]) -> bool:
    """Whether a key has keys of its own, or the user's, below it."""
    return any(isinstance(node.get(name), dict) for name in ("properties", "additionalProperties"))


def _merged(node: dict[str, Any], base: str) -> tuple[dict[str, Any], str]:
    """A node with its reference read in; what stands beside the reference wins."""
    while "$ref" in node:
        own = {name: value for name, value in node.items() if name != "$ref"}
        target, base = bundle.target(node["$ref"], base)
        node = {**target, **own}
    return node, base


def values_page(workload: str) -> str:
    """docs/reference/values-<workload>.md."""
    lines = [
        f"# Values of the {workload} chart",
        "",
        _NOTICE.format(source=f"`schemas/` and `charts/{workload}/values.yaml`"),
        'Zero and empty mean "not set". A key that is not here is refused, and the nearest one',
        "is named; `allranks validate` tells every problem at once. `[]` stands for an item of a",
        "list, `*` for a key of your own.",
        "",
        "## At the root",
        "",
        *_HEAD,
    ]
    sections: dict[str, list[Key]] = {}
    for key in keys(workload):
        sections.setdefault(key.path.split(".", 1)[0].removesuffix("[]"), []).append(key)
    lines += [_row(rows[0]) for rows in sections.values() if len(rows) == 1]
    for name, rows in sections.items():
        if len(rows) > 1:
            intro = [_cell(_meaning(rows[0])), ""] if _is_section(rows[0]) else []
            lines += ["", f"## {name}", "", *intro, *_HEAD]
            lines += [_row(key) for key in rows[bool(intro) :]]
    return "\n".join(lines) + "\n"


_HEAD = ("| key | form | default | meaning |", "|---|---|---|---|")


def _row(key: Key) -> str:
    return f"| `{key.path}` | {_form(key.node)} | {_default(key)} | {_cell(_meaning(key))} |"


def readme(workload: str) -> str:
    """charts/<workload>/README.md."""
    lines = [
        f"# {workload}",
        "",
        _NOTICE.format(source=f"`schemas/` and `charts/{workload}/values.yaml`"),
        *(_ABOUT.get(workload) or _run(workload)),
        *_guide(workload),
        "| key | default | meaning |",
        "|---|---|---|",
    ]
    lines += [
        f"| `{key.path}` | {_default(key)} | {_cell(_meaning(key))} |"
        for key in keys(workload)
        if key.default is not _UNSET and not _is_section(key)
    ]
    return "\n".join(lines) + "\n"


_OPERATOR = (
    "The operator: it keeps the status of every release (`kubectl get runs`), and does what",
    "elastic jobs ask for. `allranks operator install` installs it with the definitions of its",
    "kinds, and `allranks operator upgrade` brings both to a new version; plain",
    "`helm install allranks charts/operator` installs both as well, but Helm never updates a",
    "definition.",
    "",
)


_RUNNER = (
    "What stays with a sweep inside the cluster: it proposes trials, starts and ends their",
    "releases, reads what they print and writes the journal. `allranks sweep run NAME -f",
    "values.yaml --in-cluster` installs it as the release NAME, with what is tried and with the",
    "rights that its trials need; your own values for it are given by `--runner FILE`.",
    "",
)
_QUEUE = (
    "A team's queue: the values that its jobs have by default, the rules that hold them and what",
    "is imposed on them, with the quota, the claims, the rights and the scheduler's own queue that",
    "belong to it. One release for each team and queue, in the team's namespace:",
    "`helm install h100 charts/queue -n research -f queue.yaml`.",
    "",
)
_ABOUT = {names.OPERATOR: _OPERATOR, names.SWEEP_RUNNER: _RUNNER, names.QUEUE_CHART: _QUEUE}


def _run(workload: str) -> list[str]:
    subject = "A grid of training trials" if workload == "sweep" else "One training job"
    return [
        f"{subject} as one Helm release:",
        f"`helm install NAME charts/{workload} -f values.yaml`. The release's name is the job's",
        "name. Removing the release removes the job; volumes with `keep` stay. Values are checked",
        "against `values.schema.json` before anything is sent, and",
        "`allranks validate -f values.yaml` words each problem with its line and its fix.",
        "",
        "`scheduling.dialect`, `scheduling.topology` and `network.rdma` need the post-renderer:",
        "`helm install … --post-renderer allranks-postrender`. Without it the cluster refuses such",
        "a release before anything is created.",
        "",
    ]


# Guides that have another name than their chart.
_GUIDES = {"sweep": "sweeps", names.SWEEP_RUNNER: "sweeps", names.QUEUE_CHART: "queues"}


def _guide(workload: str) -> list[str]:
    guide = f"docs/guides/{_GUIDES.get(workload, workload)}.md"
    return [f"The guide to it is `{guide}`.", ""] if (ROOT / guide).is_file() else []


def checks_page() -> str:
    """docs/reference/checks.md."""
    stopping = [rule for rule in check.rules() if not rule.warning]
    warned = [rule for rule in check.rules() if rule.warning]
    lines = [
        "# What is checked between values",
        "",
        _NOTICE.format(source="`generator/allranks/values/rules/`"),
        "The schema says what each value may be; these rules say what values may be together. All",
        "that do not hold are reported in one run, before anything is sent.",
        "",
        "| rule | what holds |",
        "|---|---|",
        *(f"| {rule.id} | {_cell(rule.doc)} |" for rule in stopping),
        "",
        "Worth a word, but no error:",
        "",
        "| rule | what is said |",
        "|---|---|",
        *(f"| {rule.id} | {_cell(rule.doc)} |" for rule in warned),
    ]
    return "\n".join(lines) + "\n"


def _is_section(key: Key) -> bool:
    """Whether a key only holds others, which have rows of their own."""
    return isinstance(key.default, dict) and bool(key.default) and "properties" in key.node


def _form(node: dict[str, Any]) -> str:
    if "enum" in node:
        return ", ".join(_choice(choice) for choice in node["enum"])
    if "const" in node:
        return f"`{node['const']}`"
    if "title" in node:
        return _cell(node["title"])
    kinds = node.get("type", [])
    listed = [kinds] if isinstance(kinds, str) else kinds
    return " or ".join(_KINDS[kind] for kind in listed if kind != "null")


def _choice(choice: object) -> str:
    return f"`{choice}`" if choice and isinstance(choice, str) else f"`{json.dumps(choice)}`"


def _default(key: Key) -> str:
    if key.default is _UNSET or _is_section(key):
        return ""
    return f"`{json.dumps(key.default, ensure_ascii=False)}`"


def _meaning(key: Key) -> str:
    text = str(key.node.get("description", ""))
    return f"{text} Its keys are those of `{key.like}`." if key.like else text


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|").replace("<", "&lt;")


def slurm_guide() -> str:
    """The guide for who comes from Slurm, with the table of its options."""
    text = (ROOT / _SLURM_GUIDE).read_text(encoding="utf-8")
    before, start, rest = text.partition(_OPTIONS)
    _, end, after = rest.partition(_OPTIONS_END)
    rows = [
        f"| {_cell(f'`{option.title}`')} | {' '.join(option.of)} | {option.outcome} "
        f"| {_cell(option.to)} | {_cell(option.why)} |\n"
        for option in options.OPTIONS
    ]
    table = "| option | of | outcome | here | why |\n| --- | --- | --- | --- | --- |\n" + "".join(
        rows
    )
    return f"{before}{start}\n{table}{end}{after}"


def pages() -> dict[Path, str]:
    """Every page, by its file."""
    pages = {
        ROOT / "docs/reference/checks.md": checks_page(),
        ROOT / _SLURM_GUIDE: slurm_guide(),
    }
    for workload in names.WORKLOADS:
        pages[ROOT / f"docs/reference/values-{workload}.md"] = values_page(workload)
    for chart in (*names.WORKLOADS, *names.OTHER_CHARTS):
        pages[ROOT / f"charts/{chart}/README.md"] = readme(chart)
    return pages


def main(argv: list[str] | None = None) -> int:
    """Write or compare every page.

    Returns:
        1 where ``--check`` finds a page that is not what would be written.
    """
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    arguments = parser.parse_args(argv)
    stale = 0
    for path, text in pages().items():
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if arguments.check:
            stale = 1
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale; run `make gen-docs`\n")
        else:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
