"""What control must not lose: a SQLite database with copies in several log dirs, whose rows add up to a digest."""
