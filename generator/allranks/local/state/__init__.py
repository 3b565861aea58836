"""The stored state of a run: its folder, status, Events and logs."""
