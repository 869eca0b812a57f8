"""What is shown to people: precision, progress, plots."""
