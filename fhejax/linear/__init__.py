"""Encrypted linear algebra: linear transforms of the slots."""

from fhejax.linear.evaluation import apply as apply
from fhejax.linear.transform import LinearTransform as LinearTransform
