"""The checks: each takes the evidence and gives findings; docs/validation.md defines them."""
