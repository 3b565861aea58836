"""The sweep that a person asked for, from values and flags.."""
