"""The converters, a module a kind, and what belongs to a kind alone."""
