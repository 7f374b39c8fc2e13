"""The cleaner process: compacts logs. It writes `.cleaned` files; IO workers swap them in."""
