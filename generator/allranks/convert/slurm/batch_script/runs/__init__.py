"""What a script becomes: a command of ranks, with their sizes, or one process."""
