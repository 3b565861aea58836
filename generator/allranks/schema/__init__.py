"""The JSON Schemas of values files, and problems that a user can act on.

The schemas are written by hand under ``schemas/`` and bundled into ``charts/*/values.schema.json``,
which Helm enforces. `validate` reads that same bundle, so that Helm's verdict and ours agree;
what it adds is the wording: every problem at once, the nearest key, the text as it was typed.
"""
