"""Reading of log directories: file names, segments, look-up by offset and time. Writes nothing."""
