"""A pod on this machine: its processes, environment, volumes and lifecycle."""
