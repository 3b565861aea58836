"""A workspace: the folder of code that a job runs, and the snapshot of it that is sent along.

A snapshot is taken once (`tree`, `ignore`, `secrets`), known by the digest of its contents, packed
into one archive (`archive`), and sent outside of the Helm release (`transport`). The pods unpack it
themselves. See docs/adr/0023-a-workspace-is-a-snapshot.md.
"""
