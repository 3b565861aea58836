"""What the converters of several kinds share: programs, roles, sets of pods, MPI's launchers."""
