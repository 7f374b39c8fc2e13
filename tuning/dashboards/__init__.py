"""Grafana's dashboard and Prometheus' alerts for kbroker, as tables; `make docs` writes the files
from them."""
