"""Pod templates of other projects: taken apart, and as values."""
