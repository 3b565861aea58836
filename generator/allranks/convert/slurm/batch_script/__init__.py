"""What a batch script runs, as it is read from its text.

`reader` has the way through: `parsing` makes statements of the text, `shell_variables` collects
what its variables hold, `step_search` finds the commands that start processes, and the one with the
ranks, apart from the `side_steps` that prepare the nodes. Then `ranks` makes that step a command
(`rank_sizes`, `mpi_ranks`, `rank_command`), and `setup_lines` what stands before it setup, but for
what is `left_out`; `behind_step` says what is behind it, and `one_process` runs a script without
such a step as it is. At the end `missing_in_pods` and `unset_variables` name what a pod does not
have.
"""
