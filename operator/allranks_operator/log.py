"""The log: one line of JSON per event, to standard error.

Words come first (`event`), then what they are about as fields: `namespace`, `run` or `job`, `plan`,
`pod`. A field that several lines share has one name in all of them.
"""

from __future__ import annotations

import logging
import sys
from typing import TextIO

import structlog

LEVELS = ("debug", "info", "warning", "error")


def setup(level: str, stream: TextIO | None = None) -> structlog.typing.FilteringBoundLogger:
    """Return the logger.

    Args:
        level: the least that is written, one of `LEVELS`.
        stream: where to; None is standard error.
    """
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            structlog.processors.dict_tracebacks,
            structlog.processors.JSONRenderer(sort_keys=False),
        ],
        wrapper_class=structlog.make_filtering_bound_logger(getattr(logging, level.upper())),
        logger_factory=structlog.WriteLoggerFactory(file=stream or sys.stderr),
        cache_logger_on_first_use=False,
    )
    logger: structlog.typing.FilteringBoundLogger = structlog.get_logger()
    return logger
