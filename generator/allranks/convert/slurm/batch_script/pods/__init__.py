"""What a script uses and no pod has: rights, networks, folders, files, what answers at a port."""
