"""What a person reads of a conversion: the report, the comments of the values, `--check`."""
