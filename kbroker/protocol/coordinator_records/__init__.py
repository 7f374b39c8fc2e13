"""Records of __consumer_offsets, __transaction_state and __share_group_state.

Their bytes are made and read by kbroker.protocol.record_types.
"""
