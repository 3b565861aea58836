"""The master's log: one line of JSON per event, to standard error.

Standard library only: on a laptop the local runtime starts this process, without the operator's
further dependencies. The fields are the operator's: `event` first, then what it is about.
"""

from __future__ import annotations

import json
import sys
import threading
from datetime import UTC, datetime
from typing import Any, TextIO


class Log:
    """Writes lines, from any thread."""

    def __init__(self, stream: TextIO | None = None, **always: Any) -> None:
        """Create a log of a stream.

        Args:
            stream: where to; None is standard error.
            always: fields of every line.
        """
        self._stream = stream
        self._always = always
        self._lock = threading.Lock()

    def info(self, event: str, **fields: Any) -> None:
        """Log an event."""
        self._write("info", event, fields)

    def warning(self, event: str, **fields: Any) -> None:
        """Log an event that a person should look at."""
        self._write("warning", event, fields)

    def fail(self, event: str, **fields: Any) -> None:
        """Log a failure."""
        self._write("error", event, fields)

    def _write(self, level: str, event: str, fields: dict[str, Any]) -> None:
        now = datetime.now(UTC).isoformat().replace("+00:00", "Z")
        line = {"event": event, **self._always, **fields, "level": level, "timestamp": now}
        text = json.dumps(line, default=str)
        with self._lock:
            stream = self._stream or sys.stderr
            stream.write(text + "\n")
            stream.flush()
