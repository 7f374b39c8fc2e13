"""The kbroker command: a client of the Kafka protocol for operators and scripts. Works against
Apache Kafka, too.

Called by no other package. Runs in a process of its own; that of `serve` becomes the supervisor.
"""
