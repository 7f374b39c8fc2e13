"""The API's answers to GET: functions of a checked request. Each sends a few requests to the
broker."""
