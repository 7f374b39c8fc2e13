"""Development tool: writes kbroker/protocol/messages and kbroker/protocol/coordinator_records. Not used at run time."""
