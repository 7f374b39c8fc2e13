"""The API's answers to GET: plain functions of a checked request, with a few requests to the broker
each."""
