"""Where a sweep is kept: a file, a database, or Secrets, behind one port."""
