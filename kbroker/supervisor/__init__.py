"""The parent process: it creates what is shared, starts the roles, restarts what dies, drains in order."""
