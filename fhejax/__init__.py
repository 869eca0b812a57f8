"""Homomorphic encryption (CKKS) for people who write JAX.

A ciphertext is a pytree, an operation a pure function that runs eagerly, under `jax.jit` and under `jax.vmap`.
"""

import importlib.metadata

from fhejax import functions as functions, polynomials as polynomials
from fhejax.arrays import ArrayMap as ArrayMap, EncryptedArray as EncryptedArray, Layout as Layout
from fhejax.arrays.images.convolutions import conv2d as conv2d, conv2d_map as conv2d_map
from fhejax.arrays.images.pooling import avg_pool as avg_pool, avg_pool_map as avg_pool_map
from fhejax.arrays.products.ciphertext_products import ciphertext_product as ciphertext_product
from fhejax.arrays.products.matmul import matmul as matmul, matmul_map as matmul_map, outer as outer
from fhejax.arrays.products.plans import matrix_product as matrix_product
from fhejax.bootstrapping import (
    Bootstrapping as Bootstrapping,
    BootstrappingKeys as BootstrappingKeys,
    bootstrap as bootstrap,
    bootstrap_many as bootstrap_many,
    refresh as refresh,
)
from fhejax.errors import (
    LevelError as LevelError,
    MissingKeyError as MissingKeyError,
    OutOfRangeWarning as OutOfRangeWarning,
    ParametersMismatchError as ParametersMismatchError,
    ScaleError as ScaleError,
)
from fhejax.kinds.ciphertext import Ciphertext as Ciphertext
from fhejax.kinds.simulated import Simulated as Simulated, simulate as simulate
from fhejax.linear import LinearTransform as LinearTransform, apply as apply
from fhejax.operations.arithmetic import (
    add as add,
    dot_plain as dot_plain,
    multiply as multiply,
    multiply_plain as multiply_plain,
    negate as negate,
    relinearize as relinearize,
    square as square,
    subtract as subtract,
)
from fhejax.operations.encryption import decrypt as decrypt, encrypt as encrypt
from fhejax.operations.levels import drop_to_level as drop_to_level, rescale as rescale
from fhejax.operations.rotations import (
    conjugate as conjugate,
    rotate as rotate,
    rotate_many as rotate_many,
    rotation_path as rotation_path,
    sum_slots as sum_slots,
)
from fhejax.parameters.parameters import Parameters as Parameters
from fhejax.parameters.security import (
    InsecureParametersError as InsecureParametersError,
    SecurityReport as SecurityReport,
)
from fhejax.planning.count import Count as Count, count as count
from fhejax.planning.plan import KeyPlan as KeyPlan, plan_keys as plan_keys
from fhejax.polynomials.evaluation import evaluate as evaluate
from fhejax.polynomials.polynomial import Polynomial as Polynomial
from fhejax.primitives.calls import check_implementation as check_implementation
from fhejax.primitives.define import register_implementation as register_implementation
from fhejax.primitives.native import lowering as lowering, show_config as show_config
from fhejax.report.precision import precision as precision
from fhejax.scheme.encoding import decode as decode, encode as encode
from fhejax.scheme.keys import evaluation_keys as evaluation_keys, public_key as public_key, secret_key as secret_key
from fhejax.scheme.random import Seed as Seed, new_seed as new_seed, split_seed as split_seed
from fhejax.scheme.values import (
    EvaluationKeys as EvaluationKeys,
    Plaintext as Plaintext,
    PublicKey as PublicKey,
    SecretKey as SecretKey,
    SwitchingKey as SwitchingKey,
)
from fhejax.serialization import export_checks as export_checks, load as load, save as save

polynomial = polynomials  # as in fhejax.polynomial.fit

__version__ = importlib.metadata.version("fhejax")
