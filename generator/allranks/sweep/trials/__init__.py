"""The releases of trials: on a cluster by Helm, or processes of this machine."""
