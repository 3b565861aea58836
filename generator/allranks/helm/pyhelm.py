"""What is used of pyhelm3: its command runner and its errors.

Its client and its models (`allranks.helm.client`) bring pydantic, which takes 0.1 s to import; they
are imported when somebody asks for them.
"""

from __future__ import annotations

from allranks import libraries

libraries.defer("pyhelm3")
libraries.defer("pyhelm3.errors")  # `pyhelm3.command` asks the package for it

from pyhelm3.command import Command  # noqa: E402 - after the package is deferred
from pyhelm3.errors import Error, ReleaseNotFoundError  # noqa: E402

__all__ = ["Command", "Error", "ReleaseNotFoundError"]
