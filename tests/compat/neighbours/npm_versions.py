"""Versions of the JavaScript clients."""

KAFKAJS = "kafkajs@2.2.4"
PLATFORMATIC = "@platformatic/kafka@1.35.0"  # the last that runs on Node.js 20
