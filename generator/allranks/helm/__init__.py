"""Helm, as a program we call: finding it, driving it, reading its errors, serving it plugins."""
