"""The rights that a render grants, and those that the guide tells of, in one form."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

Rights = dict[tuple[str, str], set[str]]
_CORE = "core"


def of_rules(rules: Iterable[dict[str, Any]]) -> Rights:
    """Verbs by (group, resource)."""
    rights: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for rule in rules:
        assert set(rule) <= {"apiGroups", "resources", "resourceNames", "verbs"}
        for group in rule["apiGroups"]:
            for resource in rule["resources"]:
                rights[group or _CORE, resource] |= set(rule["verbs"])
    return dict(rights)


def of_role(manifests: dict[str, Any], role: str) -> Rights:
    """The rights of a Role or ClusterRole, named ``Kind/name``."""
    return of_rules(manifests[role]["rules"])


def of_guide(guide: Path) -> list[Rights]:
    """The guide's tables of rights: operator, lease, a master's own, all masters', people."""
    tables: list[Rights] = []
    inside = False
    for line in guide.read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")] if "|" in line else []
        if cells[:3] == ["group", "resources", "verbs"]:
            tables.append({})
            inside = True
        elif not cells:
            inside = False
        elif inside and not cells[0].startswith("---"):
            key = (cells[0], cells[1])
            tables[-1].setdefault(key, set()).update(cells[2].split(", "))
    return tables
