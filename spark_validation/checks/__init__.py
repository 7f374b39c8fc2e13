"""The checks: each returns findings from the evidence; docs/validation.md defines them."""
