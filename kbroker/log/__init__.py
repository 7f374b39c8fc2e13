"""What a log directory looks like to readers: names, segments, look-up by offset and time. Writes nothing."""
