"""Hyperparameter sweeps: one values file becomes an experiment of many trials.

The core is pure and needs no library. `model` says what a sweep is; `spec`, with `forms` and
`reading`, reads one from values and `tokens` how they were typed; `space` counts its combinations;
`apply`, with `places` and `naming`, makes a trial's values; `metrics` reads what trials report, and
`stopping` judges them. `records` are what is written down of a sweep, `state` is their fold,
`decide` says what to do next in terms of `actions`, and `written` keeps a sweep for its resumption.

At its edge stand `journals`, the port of what keeps a sweep, and `sampling`, that of the searches.
Behind the first are `journal`, a file that survives a crash, and `study` with its neighbours
(`rows`, `mirror`, `database`), a study in a database; these and `search` alone import Optuna.
"""
