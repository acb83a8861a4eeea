"""Two arms compared: paired, interleaved, and refused where they say nothing about each other."""
