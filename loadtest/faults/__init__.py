"""What is done to a broker while it is under load: a schedule from a seed, and one file for each kind of fault."""
