"""What a sweep has found: tables, pictures and the report."""
