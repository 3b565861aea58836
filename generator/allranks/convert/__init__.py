"""Convert other projects' objects into values: pure, and with a verdict for every field."""
