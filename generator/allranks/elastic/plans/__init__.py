"""ScalePlans: which of them wins, what they change, and how far they are."""
