"""The way to Apache Kafka and back: what the store holds as a KRaft metadata snapshot, and what Kafka changed since.

`records.py` are the messages, `snapshot.py` the file, `export.py` writes it, `take_back.py` takes Kafka's changes over;
`kbroker/control/metadata/kafka_metadata.py` reads it.
"""
