"""What a batch script runs, as it is read from its text.

`reader` has the way through, and each folder imports only what stands behind it here. `runs` makes
a step a command of ranks, or runs a script without such a step as it is. `setup` makes what stands
before the step setup, but for what is left out. `steps` finds the commands that start processes,
and the one with the ranks. `pods` names what a pod does not have, `containers` what the script asks
of Pyxis and Singularity, and `text` makes statements and variables of the script's text.
"""
