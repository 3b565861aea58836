"""Which parameters the next trial gets.."""
