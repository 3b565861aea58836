"""A batch script of Slurm's and the pods made of it, run side by side: what differs in silence."""
