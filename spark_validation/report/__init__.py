"""The judgement as one HTML file that needs nothing else, and as JSON."""
