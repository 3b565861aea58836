"""Batch scripts of Slurm as values: what `sbatch` reads, and what the script then runs.

The directives are data (`options`), with a verdict for each option that `sbatch`, `srun` and Pyxis
have; `scanner` splits the script into commands, `job` makes values of both.
"""
