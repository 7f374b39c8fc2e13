"""Load tests of any Kafka broker on Locust: real clients, faults while they run, and histories for
the verdict.

A client like any other: nothing here imports kbroker's code, so Apache Kafka is judged by the same
ruler.
"""
