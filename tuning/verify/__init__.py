"""Proof of the advice: a broker of its own does the same work with and without each change, in
turns; what helped beyond the spread stays."""
