"""The post-renderer: a filter over any chart's manifests, stdin to stdout.

Helm starts it once for each release, so that most of its time would be Python's start-up. Hence
the import budget: the standard library, PyYAML (only when a document has to be read) and this
package's own small modules; nothing here imports ``typing``, ``dataclasses`` or ``argparse`` on
the way of an ordinary run. See docs/guides/post-renderer.md for what each pass writes.
"""

from __future__ import annotations

from allranks.postrender.options import PostrenderOptions
from allranks.postrender.pipeline import process

__all__ = ["PostrenderOptions", "process"]
