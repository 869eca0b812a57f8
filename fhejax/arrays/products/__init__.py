"""Matrix products of encrypted arrays."""
