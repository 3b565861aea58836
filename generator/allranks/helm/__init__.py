"""Helm: find it, run it, read its errors, and install plugins in it."""
