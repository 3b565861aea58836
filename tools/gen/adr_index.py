"""Write docs/adr/README.md: the decisions, by number and title.

Usage: adr_index.py [--check]
"""

from __future__ import annotations

import sys
from pathlib import Path

FOLDER = Path(__file__).parents[2] / "docs" / "adr"
PAGE = FOLDER / "README.md"
HEAD = """\
# Decisions

Why things are as they are, with the alternatives that were not taken. Written by `make gen-adr`
from the pages' titles. A page is not rewritten; a later one supersedes it.

"""


def page() -> str:
    """The index, a line for each page."""
    lines = []
    for path in sorted(FOLDER.glob("[0-9]*.md")):
        title = path.read_text(encoding="utf-8").splitlines()[0].removeprefix("# ")
        number, _, words = title.partition(". ")
        lines.append(f"- {number}: [{words}]({path.name})\n")
    return HEAD + "".join(lines)


def main() -> int:
    """Write the page; with ``--check`` only say whether it is stale (exit code 1)."""
    text = page()
    if "--check" in sys.argv[1:]:
        is_stale = not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text
        if is_stale:
            print("docs/adr/README.md is stale: run `make gen-adr`")
        return int(is_stale)
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
