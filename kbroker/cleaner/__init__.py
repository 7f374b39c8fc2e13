"""The cleaner: compaction of logs in a process of its own. It writes `.cleaned` files; IO workers
put them in place."""
