"""Attacks of one hostile client, bounded in time; where they apply, the same against Apache
Kafka."""
