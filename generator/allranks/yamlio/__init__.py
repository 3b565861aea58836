"""Read YAML exactly as Helm does, and write YAML that Helm reads back unchanged.

`load` and `dump` are the hot path (standard library and PyYAML's C parser only); `edit` changes a
user's file and keeps its comments.
"""
