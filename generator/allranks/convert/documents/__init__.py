"""The objects of an input: where each stands, and which of them can refer to each other."""
