"""What is looked for in all objects of an input, of whatever kind, and in those beside a job."""
