"""What stands before and behind a step: setup, its variables and folders, and what is left out."""
