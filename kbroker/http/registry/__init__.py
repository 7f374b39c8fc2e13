"""The schema registry: Confluent's REST API over a compacted topic `_schemas` in Confluent's format
(docs/registry.md).

`topic_records` are the topic's records, `state` is the result of applying them, `topic` reads and
writes them as a client of the broker; `formats` parse and compare schemas; `levels`,
`compatibility` and `operations` decide, `answers` has the table of paths, `server` is the HTTP
side.
"""
