"""What runs the trials: Helm releases on a cluster, or processes of this machine."""
