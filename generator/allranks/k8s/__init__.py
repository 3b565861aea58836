"""Kubernetes' own forms, read without ever raising: fields, quantities, ranges of integers."""
