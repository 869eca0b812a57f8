"""Programs known before they run: the keys that they need, and what they take."""
