"""Settings, one row each; parsing, checks, DescribeConfigs, AlterConfigs and docs/config.md
follow.

Called by `api`, `cleaner`, `cli`, `control`, `http`, `io`, `ipc`, `log`, `net` and `supervisor`.
Runs in every process. Raises ConfigError for wrong settings.
"""
