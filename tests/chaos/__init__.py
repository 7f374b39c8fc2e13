"""Tests again and again while their processes are stopped for moments, or while their disk is slow
(make chaos)."""
