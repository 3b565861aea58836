"""The steps of a script: where they are, and what srun and the launchers are told of them."""
