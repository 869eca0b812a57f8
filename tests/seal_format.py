"""TenSEAL's files, as far as the tests need them: keys and ciphertexts of CKKS, read and written.

TenSEAL wraps blobs of Microsoft SEAL in protobuf messages:

  context   1: encryption parameters, 2: {1: public key}, 3: {1: secret key}, ...
  vector    1: the number of slots in use, 2: ciphertext, 3: scale

A SEAL blob is a header and a body, integers little-endian:

  header      u16 magic 0xA15E, u8 header size 16, u8 major, u8 minor, u8 compression, u16 zero, u64 total size
  parameters  u8 scheme (2: CKKS), u64 N, u64 k, then k blobs of one u64, the primes; the last one is the special prime
  secret key  32 bytes parms_id, u64 words, f64 scale, blob of (u64 words, u64[k, N])
  ciphertext  32 bytes parms_id, u8 in NTT form, u64 components, u64 N, u64 limbs, f64 scale, u64 correction factor,
              blob of (u64 words, u64[components, limbs, N])

parms_id is a hash of the parameters down to the ciphertext's level, which SEAL compares: take it from a ciphertext that
SEAL made. Residues are in NTT form, bit-reversed, by the smallest primitive 2N-th root, as in fhejax. Slot j lies at
zeta^(3^j) with zeta = exp(i pi / N), where fhejax has zeta^(5^j).

Source: `save_members` in native/src/seal of SEAL 4 (serialization.h, encryptionparams.cpp, plaintext.cpp,
ciphertext.cpp); tenseal/proto of TenSEAL 0.3.
"""

import struct
from typing import NamedTuple

import numpy as np

_HEADER = struct.Struct("<HBBBBHQ")
_CIPHERTEXT = struct.Struct("<32s?QQQdQ")
_PLAINTEXT = struct.Struct("<32sQd")
_MAGIC, _UNCOMPRESSED, _ZSTANDARD = 0xA15E, 0, 2


class SealCiphertext(NamedTuple):
    """A ciphertext of SEAL; `data` is `uint64[components, limbs, N]`, NTT form."""

    parms_id: bytes
    scale: float
    data: np.ndarray


def read_message(message: bytes) -> dict[int, int | float | bytes]:
    """The fields of a protobuf message by number, none repeated, in their order."""
    fields, offset = {}, 0
    while offset < len(message):
        tag, offset = _read_varint(message, offset)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            fields[number], offset = _read_varint(message, offset)
        elif kind == 1:
            (fields[number],) = struct.unpack_from("<d", message, offset)
            offset += 8
        elif kind == 2:
            length, offset = _read_varint(message, offset)
            fields[number] = message[offset : offset + length]
            offset += length
        else:
            raise ValueError(f"protobuf field {number} has wire type {kind}; need 0, 1 or 2")
    return fields


def write_message(fields: dict[int, int | float | bytes]) -> bytes:
    """The inverse of `read_message`."""
    message = b""
    for number, value in fields.items():
        match value:
            case int():
                message += _varint(number << 3) + _varint(value)
            case float():
                message += _varint(number << 3 | 1) + struct.pack("<d", value)
            case bytes():
                message += _varint(number << 3 | 2) + _varint(len(value)) + value
    return message


def read_parameters(blob: bytes) -> tuple[int, tuple[int, ...]]:
    """The ring degree, and all primes, the special one last."""
    body, offset = _unwrap(blob), 17
    scheme, degree, count = struct.unpack_from("<BQQ", body)
    if scheme != 2:
        raise ValueError(f"SEAL scheme {scheme}; need 2, CKKS")
    primes = []
    for _ in range(count):
        prime = body[offset : offset + _HEADER.size + 8]
        primes.append(int.from_bytes(_unwrap(prime), "little"))
        offset += len(prime)
    return degree, tuple(primes)


def read_secret_key(blob: bytes, degree: int) -> np.ndarray:
    """`uint64[primes, N]`, NTT form."""
    body = _unwrap(blob)
    return _read_words(body[_PLAINTEXT.size :]).reshape(-1, degree)


def read_ciphertext(blob: bytes) -> SealCiphertext:
    """Reads a ciphertext encrypted with the public key; those of the secret key are half a seed."""
    body = _unwrap(blob)
    parms_id, in_ntt_form, components, degree, limbs, scale, _ = _CIPHERTEXT.unpack_from(body)
    if not in_ntt_form:
        raise ValueError("a CKKS ciphertext is in NTT form")
    data = _read_words(body[_CIPHERTEXT.size :]).reshape(components, limbs, degree)
    return SealCiphertext(parms_id, scale, data)


def write_ciphertext(ciphertext: SealCiphertext, version: tuple[int, int]) -> bytes:
    """An uncompressed blob for a SEAL of this version, such as (4, 3)."""
    components, limbs, degree = ciphertext.data.shape
    head = _CIPHERTEXT.pack(ciphertext.parms_id, True, components, degree, limbs, ciphertext.scale, 1)
    words = struct.pack("<Q", ciphertext.data.size) + ciphertext.data.astype("<u8").tobytes()
    return _wrap(head + _wrap(words, version), version)


def version_of(blob: bytes) -> tuple[int, int]:
    """The version of SEAL that wrote a blob."""
    return _HEADER.unpack_from(blob)[2:4]


def from_seal_slots(values: np.ndarray) -> np.ndarray:
    """Reorders `[N/2]` slots of SEAL as fhejax orders them."""
    index, conjugated = _slots_of_seal(len(values))
    result = np.empty_like(values)
    result[index] = np.where(conjugated, np.conj(values), values)
    return result


def to_seal_slots(values: np.ndarray) -> np.ndarray:
    """The inverse of `from_seal_slots`."""
    index, conjugated = _slots_of_seal(len(values))
    return np.where(conjugated, np.conj(values[index]), values[index])


def _slots_of_seal(slots: int) -> tuple[np.ndarray, np.ndarray]:
    """For each slot j of SEAL, the k with 3^j = 5^k or -5^k mod 2N, and whether it is -5^k: the conjugate."""
    order = 4 * slots
    ours = {pow(5, k, order): k for k in range(slots)}
    points = [pow(3, j, order) for j in range(slots)]
    conjugated = np.array([point not in ours for point in points])
    index = np.array([ours.get(point, ours.get(order - point)) for point in points])
    return index, conjugated


def _wrap(body: bytes, version: tuple[int, int]) -> bytes:
    return _HEADER.pack(_MAGIC, _HEADER.size, *version, _UNCOMPRESSED, 0, _HEADER.size + len(body)) + body


def _unwrap(blob: bytes) -> bytes:
    """The body of a blob."""
    magic, _, _, _, compression, _, size = _HEADER.unpack_from(blob)
    if magic != _MAGIC or size != len(blob):
        raise ValueError(f"not a SEAL blob: magic {magic:#x}, size {size} of {len(blob)} bytes")
    body = blob[_HEADER.size :]
    if compression == _UNCOMPRESSED:
        return body
    if compression != _ZSTANDARD:
        raise ValueError(f"SEAL compression {compression}; need 0 (none) or 2 (Zstandard)")
    import zstandard  # here: the rest of the module does without

    return zstandard.ZstdDecompressor().decompressobj().decompress(body)


def _read_words(blob: bytes) -> np.ndarray:
    words = np.frombuffer(_unwrap(blob), "<u8").astype(np.uint64)
    if words[0] != len(words) - 1:
        raise ValueError(f"{len(words) - 1} words where SEAL says {words[0]}: a seeded ciphertext?")
    return words[1:]


def _read_varint(message: bytes, offset: int) -> tuple[int, int]:
    value, shift = 0, 0
    while True:
        byte = message[offset]
        value |= (byte & 0x7F) << shift
        offset, shift = offset + 1, shift + 7
        if byte < 0x80:
            return value, offset


def _varint(value: int) -> bytes:
    encoded = bytearray()
    while value > 0x7F:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*encoded, value])
