"""Rights that a child process drops before its main runs, so that an attacker who takes it over
gains little.

Runs in each child, right after its fork. The kernel enforces it: Landlock, seccomp, and no
capabilities. May be called by `supervisor.child`.
"""
