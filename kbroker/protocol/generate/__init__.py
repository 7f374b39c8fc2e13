"""Development tool: writes kbroker/protocol/messages and coordinator_records. Not used at run
time."""
