"""Runs the commands of a side in the sandbox, one after another, and prints what became of them."""

from __future__ import annotations

import json
import subprocess
import time
from pathlib import Path

from tests.side_by_side.inside.program import HOME, JOB, RECORDS

_LOG = Path(HOME) / "log"
_MOST_BYTES = 8_000_000


def main() -> None:
    """Run them, and print an object of JSON as the last line."""
    job = json.loads(Path(JOB).read_text())
    end = time.monotonic() + job["seconds"]
    exit_codes: list[int | None] = []
    for command in job["commands"]:
        with (_LOG / "output").open("ab") as output, (_LOG / "errors").open("ab") as errors:
            try:
                process = subprocess.run(
                    command["words"],
                    check=False,
                    env=command["environment"],
                    cwd=command["folder"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=errors,
                    timeout=max(0, end - time.monotonic()),
                )
            except subprocess.TimeoutExpired:
                exit_codes.append(None)
                break
            except OSError as error:
                errors.write(f"launcher: {error.filename}: {error.strerror}\n".encode())
                exit_codes.append(127)
            else:
                exit_codes.append(process.returncode)
    texts = {"records": _text(Path(RECORDS)), "errors": _text(_LOG / "errors")}
    print(json.dumps({"exit_codes": exit_codes, **texts}))


def _text(path: Path) -> str:
    if not path.exists():
        return ""
    with path.open(errors="replace") as file:
        return file.read(_MOST_BYTES)
