"""The live cluster, behind one port; the only package that knows the kubernetes library."""
