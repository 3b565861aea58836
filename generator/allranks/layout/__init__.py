"""Compute the layout of a job: nodes, processes and placement; pure."""
