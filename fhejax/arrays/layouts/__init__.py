"""Where entries of arrays lie in slots, and maps from one layout to another."""
