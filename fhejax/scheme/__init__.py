"""What the scheme is made of besides ciphertexts: plaintexts, keys, randomness, encoding."""
