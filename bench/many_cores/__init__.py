"""Scaling of kbroker with cores: measures CPU by role with few processes, and predicts it for many
by a model."""
