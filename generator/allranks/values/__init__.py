"""Merge files, presets and flags into the values of a chart.

`sources` reads and merges (as Helm does: `merge`, `strvals`), `presets` holds what ships, `check`
knows the rules between fields, `resolve` does all of it.
"""
