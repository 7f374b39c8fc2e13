"""What the API answers to GET: plain functions of a checked request, each a few questions to the broker."""
