"""Where a sweep is kept: a file, a database, or ConfigMaps, behind one port."""
