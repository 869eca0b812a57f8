"""Encrypted arrays: shapes and layouts over ciphertexts."""

from fhejax.arrays.array import EncryptedArray as EncryptedArray
from fhejax.arrays.layouts.layout import Layout as Layout
from fhejax.arrays.layouts.maps import ArrayMap as ArrayMap
