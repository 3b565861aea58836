"""The model of train.py: a module of the same folder, which travels with it."""

from __future__ import annotations

from torch import nn


def make(width: int) -> nn.Module:
    """A network that can tell two spirals apart."""
    return nn.Sequential(
        nn.Linear(2, width), nn.Tanh(), nn.Linear(width, width), nn.Tanh(), nn.Linear(width, 2)
    )
