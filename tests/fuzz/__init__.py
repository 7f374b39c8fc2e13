"""Mutated and random input for every decoder: minutes in `make test`, as long as wanted with
`make fuzz`."""
