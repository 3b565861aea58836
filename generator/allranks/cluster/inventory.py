"""What a live cluster has free, from its Node and Pod objects; pure.

The conversion itself stands in `allranks.layout.objects`, because ``--inventory`` reads the same
objects from a file.
"""

from __future__ import annotations

from allranks.layout.objects import from_objects

__all__ = ["from_objects"]
