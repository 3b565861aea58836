"""This machine: addresses, namespaces and processes."""
