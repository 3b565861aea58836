"""A workspace: the folder of code that a job runs, and the snapshot of it that is sent along.

A snapshot is taken once (`snapshot`, `ignore`, `secrets`), known by the digest of its contents,
packed into one archive (`archive`), and sent outside of the Helm release (`config_maps`, `image`,
`claim`). The pods unpack it themselves. See docs/adr/0023-a-workspace-is-a-snapshot.md.
"""
