"""Write each chart's values.schema.json from the hand-written schemas; ``--check`` compares."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from allranks import names
from allranks.schema import bundle

ROOT = Path(__file__).resolve().parents[2]


def main(argv: list[str] | None = None) -> int:
    """Write or compare every chart's bundle.

    Returns:
        1 where ``--check`` finds a file that is not what would be written.
    """
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--check", action="store_true", help="change nothing; exit 1 if stale")
    options = parser.parse_args(argv)
    stale = 0
    for workload in (*names.WORKLOADS, *names.OTHER_CHARTS):
        path = ROOT / "charts" / workload / "values.schema.json"
        text = bundle.render(bundle.bundle(workload))
        if path.is_file() and path.read_text(encoding="utf-8") == text:
            continue
        if options.check:
            stale = 1
            sys.stderr.write(f"{path.relative_to(ROOT)} is stale; run `make gen-schemas`\n")
        else:
            path.write_text(text, encoding="utf-8")
    return stale


if __name__ == "__main__":
    sys.exit(main())
