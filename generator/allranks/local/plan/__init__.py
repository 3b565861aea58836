"""From manifests to the plan of a run on this machine."""
