"""Small faults put into a copy of the repository, one at a time, and the test that catches each."""
