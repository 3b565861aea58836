"""The watcher: observes releases, decides, acts and keeps their status.

The package is a sibling of `allranks`, not a part of it: the command line never imports the
watcher, and the watcher imports only the lower layers of `allranks`.
"""
