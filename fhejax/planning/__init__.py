"""Keys planned before they are made."""
