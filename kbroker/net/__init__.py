"""Network processes and the acceptor: sockets, frames, the produce and the fetch path."""
