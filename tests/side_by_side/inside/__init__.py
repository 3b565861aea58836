"""What runs in the sandbox: the standard library alone, and nothing that is slow to import."""
