"""The peer of the tests: Apache Kafka and its Java tools, fetched by Maven coordinates."""
