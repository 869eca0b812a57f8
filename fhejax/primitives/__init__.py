"""JAX primitives on residues, each with a reference in pure JAX and kernels with the same bits."""
