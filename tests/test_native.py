"""Loading the kernels: the version guard, the choice of lowering and of instruction set, and what is printed."""

import os
import re
import subprocess
import sys

import jax
import numpy as np
import pytest
from residues import chain, random_residues

import fhejax as fhe
from fhejax import _compat
from fhejax.primitives import modular, native
from fhejax.primitives.ntt import ntt


def run(code, **environment):
    done = subprocess.run(
        [sys.executable, "-c", code], env=os.environ | environment, capture_output=True, text=True, timeout=300
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_kernels_are_loaded_and_older_than_the_runtime():
    extension = native.cpu_extension()
    assert extension is not None
    assert tuple(extension.XLA_FFI_API) <= _compat.runtime_ffi_version()


@pytest.mark.slow
def test_newer_kernels_are_refused_and_jax_goes_on():
    """A handler built for a newer FFI would keep every JAX backend from starting: the references serve instead."""
    out = run(
        "import numpy as np, jax\n"
        "from fhejax import _compat\nfrom fhejax.primitives import native\n"
        "major, minor = _compat.runtime_ffi_version()\n"
        "import fhejax._cpu as extension\n"
        "extension.XLA_FFI_API = (major, minor + 1)\n"
        "native._load_cpu.cache_clear(); native.cpu_extension.cache_clear()\n"
        "registered = []\n"
        "_compat.register_handler = lambda *a, **k: registered.append(a)\n"
        "assert native.cpu_extension() is None and not registered\n"
        "import fhejax as fhe\n"
        "fhe.show_config()\n"
        "params = fhe.Parameters.for_depth(1, log_degree=4, security=None)\n"
        "sk = fhe.secret_key(np.arange(8, dtype=np.uint32), params)\n"
        "ct = fhe.encrypt(np.ones(8, np.uint32), sk, [0.5, 0.25])\n"
        "print('sum', float(jax.numpy.ones(2).sum()), np.round(np.asarray(fhe.decrypt(sk, ct + ct))[:2], 3))\n"
    )
    assert "not loaded: fhejax was built for XLA FFI" in out and "pip install --upgrade jax jaxlib" in out
    assert "sum 2.0 [1.  0.5]" in out


@pytest.mark.parametrize(("built", "fits"), [((0, 3), True), ((0, 1), True), ((0, 4), False), ((1, 0), False)])
def test_versions(built, fits):
    if fits:
        native._check_version(built, (0, 3))
    else:
        with pytest.raises(ImportError, match="type: pip install"):
            native._check_version(built, (0, 3))


def test_show_config(capsys):
    fhe.show_config()
    text = capsys.readouterr().out
    assert fhe.__version__ in text and "lowering reference: loaded" in text
    assert re.search(r"lowering native, cpu: loaded \(XLA FFI 0\.\d+; instruction set \w+", text)
    assert "cuda: not loaded" in text


def test_every_instruction_set_has_the_same_bits():
    """The NTT, products and a key switch; that a set is chosen by the environment, the last line tells of one."""
    seeds = fhe.split_seed(np.arange(8, dtype=np.uint32), 4)
    params = fhe.Parameters.for_depth(3, log_degree=8, scale_bits=45, security=None)
    extension, results = native.cpu_extension(), []
    default = extension.instruction_set()
    for name in extension.instruction_sets():
        extension.choose_instruction_set(name)
        try:
            sk = fhe.secret_key(seeds[0], params)
            keys = fhe.evaluation_keys(seeds[1], sk, rotations=(1,))
            x = fhe.encrypt(seeds[2], sk, np.linspace(-1, 1, params.slots))
            results.append(np.asarray(fhe.rotate(fhe.square(x, keys) * 0.5, 1, keys).data))
        finally:
            extension.choose_instruction_set(default)
    for result in results:
        np.testing.assert_array_equal(result, results[0])
    show = "from fhejax.primitives import native; print(native.cpu_extension().instruction_set())"
    assert run(show, FHEJAX_INSTRUCTION_SET="portable") == "portable\n"


@pytest.mark.slow
def test_an_unknown_instruction_set_is_named():
    code = (
        "import warnings\n"
        "from fhejax.primitives import native\n"
        "with warnings.catch_warnings(record=True) as caught:\n"
        "    warnings.simplefilter('always')\n"
        "    native._load_cpu.cache_clear(); native.cpu_extension.cache_clear(); native._load_cpu()\n"
        "print([str(warning.message) for warning in caught])"
    )
    out = run(code, FHEJAX_INSTRUCTION_SET="sse9", PYTHONWARNINGS="ignore")
    assert "FHEJAX_INSTRUCTION_SET=sse9 is none of this machine's" in out and "portable" in out


def test_lowering_is_part_of_the_trace():
    moduli = chain(16, (30, 50))
    x, traces = random_residues(0, moduli, 16), []

    @jax.jit
    def program(a):
        traces.append(native.current_lowering())
        return ntt(modular.multiply(a, a, moduli), moduli)

    results = []
    for kind in ("native", "reference", "composed", "native", "reference"):
        with fhe.lowering(kind):
            results.append(np.asarray(program(x)))
            assert ("custom_call" in program.lower(x).as_text()) == (kind != "reference")
    assert traces == ["native", "reference", "composed"]
    assert all(np.array_equal(result, results[0]) for result in results)


def test_unknown_lowering():
    with pytest.raises(ValueError, match="choose one of 'native', 'composed', 'reference'"), fhe.lowering("fast"):
        pass


def test_handler_errors_name_the_operation():
    """The last line of defence: a program that was exported and is called with the wrong moduli."""
    x = random_residues(0, chain(16, (30, 50)), 16)
    call = jax.ffi.ffi_call("fhejax_ntt_v1", jax.ShapeDtypeStruct(x.shape, x.dtype))
    says = r"fhejax_ntt_v1: x has shape \[2, 16\]; its own axes are \(limbs N\)"
    with jax.enable_x64(True), pytest.raises(jax.errors.JaxRuntimeError, match=says):
        jax.block_until_ready(call(x, moduli=np.array([97], np.uint64)))
