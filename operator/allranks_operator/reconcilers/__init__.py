"""The reconcilers, one for each kind of object."""
