"""Groups of commands whose list is in the order of use, and not of the alphabet."""

from __future__ import annotations

import click


class InOrder(click.Group):
    """A group that lists its commands in the order in which they were added."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002 - click's signature
        """Return the commands' names."""
        return list(self.commands)
