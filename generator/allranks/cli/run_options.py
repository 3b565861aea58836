"""What `allranks run` and `allranks azure deploy` take alike: a job, where it runs, and how."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from allranks.cli import options
from allranks.cli.workspace import workspace_options

if TYPE_CHECKING:
    from collections.abc import Callable


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The options of running a job.

    Attributes:
        detach: return when it has started.
        replace: remove a run of the same name first.
        logs: lead, all or none.
        timeout: seconds to follow it; None is to its end.
        output: text or json.
    """

    detach: bool = False
    replace: bool = False
    logs: str = "lead"
    timeout: float | None = None
    output: str = "text"


def job_options(
    target: Callable[[Callable[..., Any]], Callable[..., Any]],
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Add NAME, and the options of values, workspace, target, helm, run and output.

    The command gets them as `name`, `sources`, `workspace`, `target`, `run_options` and `dry_run`.

    Args:
        target: adds the options that say where the job may run.
    """

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def with_options(*args: Any, **values: Any) -> Any:
            run_options = RunOptions(
                detach=values.pop("detach"),
                replace=values.pop("replace"),
                logs=values.pop("logs"),
                timeout=values.pop("timeout"),
                output=values.pop("output"),
            )
            return function(*args, run_options=run_options, **values)

        command: Callable[..., Any] = with_options
        for add in (
            options.output_option("text", "json"),
            options.run_options,
            options.helm_option,
            target,
            workspace_options(),
            options.values_options,
            options.release_argument,
        ):
            command = add(command)
        return command

    return decorate
