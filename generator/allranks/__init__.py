"""allranks: distributed training on Kubernetes as plain Helm releases.

The package is layered, bottom to top; a layer imports only what stands below it
(import-linter holds this, see pyproject.toml)::

    names, errors < model < yamlio < schema < values < layout
                  < helm, cluster, postrender, local < cli

Nothing is imported here, so that `allranks.postrender` starts with the standard library
and PyYAML alone.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
