"""Players: processes that each are one client of the broker, with their own connections, pace and
history."""
