"""YAML exactly as Helm reads it, and written so that Helm reads it back unchanged.

`load` and `dump` are the hot path (standard library and PyYAML's C parser only); `edit` changes a
user's file and keeps its comments.
"""
