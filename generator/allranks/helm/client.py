"""pyhelm3's client of releases and charts, on our command runner.

For a Python program that drives helm with us; our own commands need the runner alone, and this
module costs pydantic's import.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyhelm3

from allranks.helm.driver import HelmCommand

if TYPE_CHECKING:
    from allranks.helm.binary import HelmBinary
    from allranks.helm.driver import PostRenderer


class Client(pyhelm3.Client):  # type: ignore[misc] # pyhelm3 has no types
    """pyhelm3's client of the helm in use; it creates no namespace unasked."""

    def __init__(
        self, binary: HelmBinary, *, post_renderer: PostRenderer | None = None, **options: Any
    ) -> None:
        super().__init__(
            HelmCommand(binary, post_renderer=post_renderer, **options), executable=str(binary.path)
        )

    async def install_or_upgrade_release(self, *args: Any, **options: Any) -> Any:
        """As pyhelm3's, but `create_namespace` is off unless it is asked for."""
        options.setdefault("create_namespace", False)
        return await super().install_or_upgrade_release(*args, **options)
