"""Files of values, and export of programs that take them.

A file is safetensors: the residues as `uint64` tensors, the masks' seeds of seeded keys as `uint32` ones, coefficients
and other numbers as `float64` ones, whatever their type; and under "fhejax" in its metadata the header (see
`fhejax.serialization.headers`), with the shape and a CRC-32 of each tensor. Loading trusts nothing: whatever a file
holds, the result is a well-formed value or a ValueError. That does not prove who made it: for that, sign the file.

`fhejax.serialization.table` states what there is for each kind of value.
"""

from fhejax.serialization.exports import export_checks as export_checks
from fhejax.serialization.files import load as load, save as save
