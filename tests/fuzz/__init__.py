"""Mutated values files, and whether validate, render and Helm judge each of them alike."""
