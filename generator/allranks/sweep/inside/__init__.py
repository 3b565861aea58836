"""A sweep whose runner is a pod: its release, its rights, and why no pod runs."""
