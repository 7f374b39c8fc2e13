"""Mutation testing: one small change of the code at a time, and the fast tests that must notice it
(make mutants)."""
