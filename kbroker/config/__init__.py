"""Settings, one row each; parsing, checks, DescribeConfigs, AlterConfigs and docs/config.md
follow."""
