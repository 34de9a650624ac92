"""Measurements of speed, each beside what it is to be compared with."""
