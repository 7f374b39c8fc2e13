"""The kbroker command: a client of the Kafka protocol for operators and scripts. Works against
Apache Kafka, too."""
