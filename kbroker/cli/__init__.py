"""The kbroker command: a thin client of the protocol for operators and scripts. Works against
Apache Kafka too."""
