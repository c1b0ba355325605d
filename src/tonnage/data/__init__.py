"""
How does data come that is newer than the program? Signed releases: read, checked, installed, compared, written.

`archive` verifies, reads and installs a release, and says what differs between two; `update` fetches one from a server,
a mirror or a file. Which release is used is `catalog.rows`' to say.
"""
