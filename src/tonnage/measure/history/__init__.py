"""
Where are measurements kept? In SQLite on this machine, or in PostgreSQL by URL; one table, numbered migrations.

`place` says where, `database` speaks to either, `store` adds and reads. A row is committed before its command ends, and
a store that cannot be written costs one sentence, never the measurement.
"""
