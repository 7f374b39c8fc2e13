"""Load tests of any Kafka broker on Locust: real clients, faults while they run, and histories for
the verdict.

It is an ordinary client: it imports no code of kbroker, so Apache Kafka is judged by the same
measure.
"""
