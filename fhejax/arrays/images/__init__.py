"""Convolutions and pooling of encrypted images."""
