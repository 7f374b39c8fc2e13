"""Versions of the JavaScript clients."""

KAFKAJS = "kafkajs@2.2.4"
PLATFORMATIC = "@platformatic/kafka@1.35.0"  # later ones need Node.js 22
KAFKAJS_REGISTRY = "@kafkajs/confluent-schema-registry@3.9.0"  # later ones need Node.js 22
