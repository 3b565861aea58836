"""Write the tables of fields in docs/guides/migrate*.md, from the tables of the converters.

    <!-- fields: kinds.pytorch:FIELDS -->    in a guide: `allranks.convert.kinds.pytorch.FIELDS`
    <!-- end -->                             where it ends; what stands between is made

With ``--check`` nothing is written; the exit code is 1 where a guide is stale.
"""

from __future__ import annotations

import argparse
import importlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from allranks.convert.verdicts import METADATA

if TYPE_CHECKING:
    from collections.abc import Iterable

    from allranks.convert.verdicts import Rule

ROOT = Path(__file__).resolve().parents[2]
_MARK = re.compile(
    r"(<!-- fields: ([\w.]+):(\w+)(?:\[(\w+)\])? -->\n).*?(<!-- end -->\n)", re.DOTALL
)
_NOTICE = "<!-- Made by `make gen-convert` from the tables in generator/allranks/convert. -->\n"


def rules_of(module: str, name: str, key: str | None) -> tuple[Rule, ...]:
    """The table that a mark names."""
    table = getattr(importlib.import_module(f"allranks.convert.{module}"), name)
    rules: tuple[Rule, ...] = table[key] if key else table
    return rules


def table(rules: Iterable[Rule], module: str) -> str:
    """A table of fields, without those of every object and of every pod template."""
    rows = []
    for rule in rules:
        is_pod = re.search(r"[Tt]emplate\.(?:metadata|spec)", rule.path)
        if rule in METADATA or (is_pod and module != "pods.pod_values"):
            continue
        path = rule.path.removesuffix(".**")
        to = f"`{rule.to}`" if rule.to else ""
        why = rule.why.replace("|", "\\|")
        rows.append(f"| `{path}` | {rule.outcome} | {to} | {why} |\n")
    head = "| field | | value | why |\n| --- | --- | --- | --- |\n"
    return f"{_NOTICE}\n{head}{''.join(dict.fromkeys(rows))}\n"


def filled(text: str) -> str:
    """A guide with its tables."""

    def put(match: re.Match[str]) -> str:
        rules = rules_of(match[2], match[3], match[4])
        return f"{match[1]}{table(rules, match[2])}{match[5]}"

    return _MARK.sub(put, text)


def main() -> int:
    """Write the guides, or say which are stale."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args().check
    stale = []
    for path in sorted((ROOT / "docs/guides").glob("migrate*.md")):
        text = path.read_text(encoding="utf-8")
        if filled(text) != text:
            stale.append(path.relative_to(ROOT))
            if not check:
                path.write_text(filled(text), encoding="utf-8")
    for name in stale:
        print(f"{name} is stale: make gen-convert" if check else f"wrote {name}")
    return 1 if stale and check else 0


if __name__ == "__main__":
    sys.exit(main())
