"""The same operations by other people's libraries, on the same ring with the same number of ciphertext primes.

Each function returns what it set up, in words and numbers for the report, and its operations under fhejax's names. An
operation that a library lacks, or does with another number of primes, is not there. Both run on one thread.
"""

import importlib
from collections.abc import Callable
from typing import Any

import numpy as np
from machine import Unavailable
from operations import Subject

import fhejax as fhe

Peer = tuple[dict[str, Any], dict[str, Subject]]

# The `max_level` with which DESILO takes a ring and a number of primes: (log2(N), primes) to level.
_DESILO_LEVELS = {
    **{(13, 3): 1, (13, 4): 2, (14, 6): 3, (14, 8): 6, (14, 9): 7, (15, 8): 8, (15, 10): 9, (15, 12): 12},
    **{(15, 14): 15, (15, 15): 16, (15, 16): 17, (16, 16): 18, (16, 20): 24, (16, 24): 30, (16, 28): 35, (16, 29): 36},
}
_SEAL_SECURE_LOG_DEGREE = 15  # SEAL has no table for larger rings


def seal(params: fhe.Parameters) -> Peer:
    """Microsoft SEAL by TenSEAL's plain binding (`tenseal.sealapi`): always one special prime, a digit a prime.

    Raises:
      Unavailable: TenSEAL is not installed, or SEAL refuses the parameters.
    """
    s = _imported("tenseal.sealapi", "tenseal")
    degree, bits = params.degree, [q.bit_length() for q in (*params.moduli, max(params.special_moduli))]
    setting = s.EncryptionParameters(s.SCHEME_TYPE.CKKS)
    setting.set_poly_modulus_degree(degree)
    setting.set_coeff_modulus(s.CoeffModulus.Create(degree, bits))
    secure = params.security is not None and params.log_degree <= _SEAL_SECURE_LOG_DEGREE
    context = s.SEALContext(setting, True, s.SEC_LEVEL_TYPE.TC128 if secure else s.SEC_LEVEL_TYPE.NONE)
    if not context.parameters_set():
        raise Unavailable(f"SEAL refuses the parameters: {context.parameters_error_message()}")

    generator, public, relin, galois = s.KeyGenerator(context), s.PublicKey(), s.RelinKeys(), s.GaloisKeys()
    generator.create_public_key(public)
    generator.create_relin_keys(relin)
    generator.create_galois_keys([3, 2 * degree - 1], galois)  # a step of one, and conjugation
    encryptor, decryptor = s.Encryptor(context, public), s.Decryptor(context, generator.secret_key())
    evaluator, encoder = s.Evaluator(context), s.CKKSEncoder(context)

    values, scale = np.linspace(-1, 1, params.slots).tolist(), params.scale_at(params.max_level)
    plain, x, y, raw, coefficients = s.Plaintext(), *(s.Ciphertext(context) for _ in range(4))
    encoder.encode(values, scale, plain)
    encryptor.encrypt(plain, x)
    encryptor.encrypt(plain, y)
    evaluator.multiply(x, y, raw)
    evaluator.transform_from_ntt(x, coefficients)
    out, out_plain, out_keys = s.Ciphertext(context), s.Plaintext(), s.RelinKeys()

    def encode_encrypt():
        encoder.encode(values, scale, out_plain)
        encryptor.encrypt(out_plain, out)

    def decrypt(ciphertext=x):
        decryptor.decrypt(ciphertext, out_plain)
        return encoder.decode_double(out_plain)

    def multiply_plain():
        evaluator.multiply_plain(x, plain, out)
        evaluator.rescale_to_next_inplace(out)

    def multiply():
        evaluator.multiply(x, y, out)
        evaluator.relinearize_inplace(out, relin)
        evaluator.rescale_to_next_inplace(out)

    def square():
        evaluator.square(x, out)
        evaluator.relinearize_inplace(out, relin)
        evaluator.rescale_to_next_inplace(out)

    multiply()
    _check_squares("SEAL", decrypt(out), values)
    transformed = 2 * len(params.moduli)
    about = {
        "library": "SEAL by TenSEAL",
        "threads": 1,
        "moduli": [modulus.value() for modulus in setting.coeff_modulus()],
        "special_primes": 1,
        "security_checked": secure,
        "remark": "encode and decode include the binding's conversion of Python lists; there is no hoisting",
    }
    return about, {
        "ntt": Subject(lambda: evaluator.transform_to_ntt(coefficients, out), transformed),
        "inverse_ntt": Subject(lambda: evaluator.transform_from_ntt(x, out), transformed),
        "encode": Subject(lambda: encoder.encode(values, scale, out_plain)),
        "decode": Subject(lambda: encoder.decode_double(plain)),
        "encrypt": Subject(lambda: encryptor.encrypt(plain, out)),
        "encode_encrypt": Subject(encode_encrypt),
        "decrypt": Subject(decrypt),
        "add": Subject(lambda: evaluator.add(x, y, out)),
        "subtract": Subject(lambda: evaluator.sub(x, y, out)),
        "raw_multiply_plain": Subject(lambda: evaluator.multiply_plain(x, plain, out)),
        "multiply_plain": Subject(multiply_plain),
        "multiply": Subject(multiply),
        "square": Subject(square),
        "rescale": Subject(lambda: evaluator.rescale_to_next(x, out)),
        "rotate": Subject(lambda: evaluator.rotate_vector(x, 1, galois, out)),
        "conjugate": Subject(lambda: evaluator.complex_conjugate(x, galois, out)),
        "relinearize": Subject(lambda: evaluator.relinearize(raw, relin, out)),
        "evaluation_key": Subject(lambda: generator.create_relin_keys(out_keys)),
    }


def desilo(params: fhe.Parameters) -> Peer:
    """DESILO FHE in its single-threaded mode.

    It names neither its primes nor its digits; the number of a ciphertext's primes is taken from its size. Its
    products drop a prime by themselves, so they stand beside our rescaled ones; its `rescale` and `relinearize` work on
    fewer primes than ours and are left out. Its ciphertexts rest in coefficient form, so there are no transforms to
    compare either: `intt` of one is only a copy.

    Raises:
      Unavailable: it is not installed, or has no such ring with so many primes.
    """
    library = _imported("desilofhe", "desilofhe")
    limbs = len(params.moduli)
    try:
        engine = library.Engine(max_level=_DESILO_LEVELS[params.log_degree, limbs], mode="cpu")
    except (KeyError, ValueError, RuntimeError) as error:
        raise Unavailable(f"DESILO has no engine for N = 2^{params.log_degree}, {limbs} primes: {error}") from None
    secret = engine.create_secret_key()
    public = engine.create_public_key(secret)
    values = np.linspace(-1, 1, engine.slot_count)
    plain = engine.encode(values)
    x, y = engine.encrypt(plain, public), engine.encrypt(plain, public)
    found = x.serialized_nbytes // (32 * engine.slot_count)
    if (2 * engine.slot_count, found) != (params.degree, limbs):
        raise Unavailable(f"DESILO's ring has {2 * engine.slot_count} coefficients and {found} primes, ours {limbs}")

    relin, conjugation = engine.create_relinearization_key(secret), engine.create_conjugation_key(secret)
    rotations = [engine.create_fixed_rotation_key(secret, step) for step in range(1, 9)]
    _check_squares("DESILO", engine.decrypt(engine.multiply(x, y, relin), secret), values)
    about = {
        "library": "DESILO FHE",
        "threads": 1,
        "moduli": f"{limbs}, not documented",
        "special_primes": "not documented",
        "security_checked": "by the library's own parameters",
        "remark": "rotates the other way round",
    }
    return about, {
        "encode": Subject(lambda: engine.encode(values)),
        "decode": Subject(lambda: engine.decode(plain)),
        "encrypt": Subject(lambda: engine.encrypt(plain, public)),
        "encode_encrypt": Subject(lambda: engine.encrypt(values, public)),
        "decrypt": Subject(lambda: engine.decrypt(x, secret)),
        "add": Subject(lambda: engine.add(x, y)),
        "subtract": Subject(lambda: engine.subtract(x, y)),
        "multiply_plain": Subject(lambda: engine.multiply(x, plain)),
        "multiply": Subject(lambda: engine.multiply(x, y, relin)),
        "square": Subject(lambda: engine.square(x, relin)),
        "rotate": Subject(lambda: engine.rotate(x, rotations[0])),
        f"rotate_many({len(rotations)})": Subject(lambda: engine.rotate_many(x, rotations)),
        "conjugate": Subject(lambda: engine.conjugate(x, conjugation)),
        "evaluation_key": Subject(lambda: engine.create_relinearization_key(secret)),
    }


PEERS: dict[str, Callable[[fhe.Parameters], Peer]] = {"TenSEAL": seal, "DESILO": desilo}


def prepare(params: fhe.Parameters) -> tuple[dict[str, dict[str, Any]], dict[str, dict[str, Subject]]]:
    """What each peer set up, or why it is unavailable, and the operations of those that are not."""
    about, operations = {}, {}
    for name, peer in PEERS.items():
        try:
            about[name], operations[name] = peer(params)
        except Unavailable as reason:
            about[name] = {"unavailable": str(reason)}
    return about, operations


def _imported(module: str, package: str) -> Any:
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise Unavailable(f"{error}; type: pip install {package}") from None


def _check_squares(name: str, got: Any, values: Any) -> None:
    error = np.max(np.abs(np.asarray(got) - np.square(values)))
    assert error < 1e-3, f"{name}: the product is wrong by {error}"
