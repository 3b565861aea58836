"""Manifests of public projects, and whether each of them is converted or refused for a reason."""
