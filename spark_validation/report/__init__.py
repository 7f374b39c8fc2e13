"""The judgement as one self-contained HTML file, and as JSON."""
