"""What NumPy does to arrays: elementwise arithmetic, views, indexing, reductions."""
