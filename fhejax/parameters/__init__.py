"""Parameter sets: primes, the chain of moduli, security."""
