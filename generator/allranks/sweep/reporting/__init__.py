"""The results of a sweep: tables, pictures and the report."""
