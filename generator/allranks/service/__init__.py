"""The common steps of every way to run a job: check values, then render manifests."""
