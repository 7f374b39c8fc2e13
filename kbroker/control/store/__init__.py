"""The controller's durable state: a SQLite database with copies in several log dirs and a digest of
its rows."""
