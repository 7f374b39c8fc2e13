"""How kbroker grows with the cores of its host: CPU by role measured with few processes, and what a
model makes of it for many."""
