"""Migration to Apache Kafka and back: exports the store as a KRaft snapshot, and imports Kafka's
changes.

`records.py` are the messages, `snapshot.py` the file, `metadata_folder.py` its folder; `export.py`
writes it, `import_metadata.py` takes over Kafka's changes, and
`kbroker/control/metadata/kafka_metadata.py` reads it.

May be called by the trunk of control, `control.metadata`, the supervisor and commands. Runs in
control at its start, in the parent at its end, and in commands.
"""
