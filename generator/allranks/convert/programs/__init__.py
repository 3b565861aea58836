"""What the command lines of containers and scripts run: the shell, launchers and their options."""
