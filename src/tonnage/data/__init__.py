"""
How does data come that is newer than the program? Signed releases: read, checked, installed, compared, written.

`signature` verifies Ed25519, `archive` reads and writes a release, `update` fetches one from a server, a mirror or a
file, `diff` says what differs between two. Which release is used is `catalog.rows`' to say.
"""
