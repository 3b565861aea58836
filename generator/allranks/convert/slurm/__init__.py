"""Batch scripts of Slurm as values: what `sbatch` reads, and what the script then runs.

The directives are data (`options`), with a verdict for each option that `sbatch`, `srun` and Pyxis
have; `directives`, `resources`, `placement` and `arrays` carry them. `reader` says what the script
runs: its `steps`, the `setup` before them, and the command of its `ranks`. `job` puts both
together.
"""
