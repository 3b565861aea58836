"""Batch scripts of Slurm as values: what `sbatch` reads, and what the script then runs.

The directives are data (`options`), with a verdict for each option that `sbatch`, `srun` and Pyxis
have; `directives`, `resources`, `placement` and `arrays` carry them. `batch_script` says what the
script runs. `job` puts both together.
"""
