"""The type of a raw Kubernetes manifest.

Manifests stay plain dictionaries on purpose: what we do not know passes through untouched, which no
typed model could promise.
"""

from __future__ import annotations

from typing import Any

Manifest = dict[str, Any]
