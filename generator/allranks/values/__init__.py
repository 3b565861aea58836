"""From files, presets and flags to the one set of values a chart gets.

`sources` reads and merges (as Helm does: `merge`, `strvals`), `presets` holds what ships, `check`
knows the rules between fields, `resolve` does all of it.
"""
