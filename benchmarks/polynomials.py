"""Polynomials on ciphertexts beside TenSEAL's `polyval`, on the same ring with as many primes and the same values.

python benchmarks/polynomials.py [--json PATH] [--quick]

TenSEAL takes the coefficients of powers, and those of high Chebyshev polynomials are too large for any scale: so the
polynomials are beginnings of the series of log(1 + x), the coefficients of which are mild in both bases. Both libraries
take as many levels. One thread, taking turns in one run; medians, and the ratio of the least times beside that of the
medians. Needs TenSEAL: pip install tenseal
"""

import argparse
import json
import pathlib
from collections.abc import Callable
from typing import Any

import machine
import workers
from timing import take_turns

DEGREES, QUICK = (7, 15, 31, 63), (7,)
_LOG_DEGREE, _BITS = 14, 40  # of the ring, secure for every degree here; of the primes that are rescaled by


def main() -> None:
    """Measures each degree, and prints the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=pathlib.Path, help="where to write the figures")
    parser.add_argument("--quick", action="store_true", help="the least degree only: says that everything runs")
    options = parser.parse_args()
    print(f"N = 2^{_LOG_DEGREE}, one thread, milliseconds; bits of the worst slot")
    print("degree     ours  TenSEAL  ratio  of least  bits  TenSEAL's  key switches")
    rows = []
    for degree in QUICK if options.quick else DEGREES:
        rows.append(workers.run_on(machine.cores()[-1:], measure, degree, 3 if options.quick else 7))
        print(_line(rows[-1]), flush=True)
    if options.json:
        options.json.write_text(json.dumps({"machine": machine.describe(), "polynomials": rows}, indent=2) + "\n")


def _line(row: dict[str, Any]) -> str:
    ours, theirs = row["fhejax"], row.get("TenSEAL")
    if theirs is None:
        return f"{row['degree']:6} {ours['ms']:8.2f}  {row['unavailable']}"
    ratios = f"{theirs['ms'] / ours['ms']:6.1f} {theirs['least_ms'] / ours['least_ms']:9.1f}"
    bits = f"{ours['bits']:5.1f} {theirs['bits']:10.1f}"
    return f"{row['degree']:6} {ours['ms']:8.2f} {theirs['ms']:8.1f} {ratios} {bits} {row['key_switches']:13}"


def measure(degree: int, rounds: int) -> dict[str, Any]:
    """Milliseconds and bits of both libraries, and our key switches."""
    import numpy as np

    import fhejax as fhe
    from fhejax.polynomials.plan import planned
    from fhejax.polynomials.polynomial import pattern

    powers = np.array([0.0, *((-1) ** (k + 1) / k for k in range(1, degree + 1))])
    polynomial = fhe.Polynomial.from_power(powers)
    params = fhe.Parameters.for_depth(polynomial.depth, scale_bits=_BITS, log_degree=_LOG_DEGREE)
    values = np.linspace(-1, 1, params.slots)
    libraries = {"fhejax": _ours(polynomial, params, values)}
    row: dict[str, Any] = {"degree": degree, "key_switches": planned((pattern(polynomial),)).cost[0]}
    try:
        libraries["TenSEAL"] = _tenseal(powers.tolist(), params, values)
    except machine.Unavailable as reason:
        row["unavailable"] = str(reason)
    times = take_turns({name: run for name, (run, _) in libraries.items()}, rounds=rounds, seconds=0.0)
    for name, (_, result) in libraries.items():
        bits = float(fhe.precision(np.polynomial.polynomial.polyval(values, powers), result()))
        row[name] = {"ms": 1e3 * times[name].median, "least_ms": 1e3 * times[name].minimum, "bits": bits}
    return row


def _ours(polynomial: Any, params: Any, values: Any) -> tuple[Callable, Callable]:
    """A function that evaluates, and one that evaluates and decrypts."""
    import jax
    import numpy as np
    import operations

    import fhejax as fhe

    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)
    secret = fhe.secret_key(seeds[0], params)
    keys = fhe.evaluation_keys(seeds[1], secret)
    x = fhe.encrypt(seeds[3], fhe.public_key(seeds[2], secret), values)
    program = jax.jit(lambda x, keys: fhe.evaluate(polynomial, x, keys))
    return operations.ready(program, x, keys), lambda: fhe.decrypt(secret, program(x, keys), dtype="float64")


def _tenseal(powers: list[float], params: Any, values: Any) -> tuple[Callable, Callable]:
    try:
        import tenseal
    except ImportError as error:
        raise machine.Unavailable(f"{error}; type: pip install tenseal") from None
    # First and special prime as large as there are: its scales drift, and the result has to fit the last prime.
    sizes = [60, *(_BITS,) * params.max_level, 60]
    context = tenseal.context(
        tenseal.SCHEME_TYPE.CKKS, poly_modulus_degree=params.degree, coeff_mod_bit_sizes=sizes, n_threads=1
    )
    context.global_scale = params.scale_at(params.max_level)
    x = tenseal.ckks_vector(context, values)
    return lambda: x.polyval(powers), lambda: x.polyval(powers).decrypt()


if __name__ == "__main__":
    main()
