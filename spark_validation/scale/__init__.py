"""Large histories with their log, made without a broker: what the judge's cost is measured on."""
