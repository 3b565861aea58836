"""Hyperparameter sweeps: one values file becomes an experiment of many trials.

The core is pure and needs no library. `model` is the data of a sweep; `spec.parse` and
`spec.parameters` read it from values; `search.space` counts its combinations; `spec.apply` and
`naming` make the values and the name of a trial; `metrics` parses what trials report, and
`early_stopping` judges them. `records` are the entries of a journal, `state` is their fold,
`decide` chooses the next `actions`, and `serialize` turns a sweep into plain data and back.

At its edge are three interfaces: `storage.base` for where the journal of a sweep is kept (a file,
Secrets of a cluster, or a database), `search.base` for searches (`search.factory` chooses one), and
`trials.base` for the releases of trials. `search.optuna`, `search.samplers` and
`reporting.optuna_study` alone import Optuna.
"""
