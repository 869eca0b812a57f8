"""The kinds of encrypted values: what a circuit may ask of a value, and what each kind makes of it."""
