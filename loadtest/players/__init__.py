"""The processes that play: each is one client of the broker, with its own connections, pace and
history."""
