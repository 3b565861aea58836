"""From what a person typed to a sweep, and to the values of each trial."""
