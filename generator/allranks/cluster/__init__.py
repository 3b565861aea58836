"""The live cluster; the only package that knows the kubernetes library."""
