"""What consumer, share and streams groups have in common: Kafka's modern groups, whose broker assigns.

Their members send one heartbeat API, the group's state is records alone, and epochs say who is how far.
"""
