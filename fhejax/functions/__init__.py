"""Functions of real slots, by compositions of minimax polynomials: a library with stated errors and depths.

    gelu = fhejax.functions.gelu(x, keys, domain=(-8, 8), bits=12)

x is a ciphertext or, with None for the keys, what `fhejax.simulate` returns. Each function takes the domain that the
slots lie in, and the bits that are wanted: its absolute error is at most 2^-bits over the domain, in exact arithmetic;
noise comes on top. How it is computed is chosen for the least depth, and then for the fewest key switches, when it is
first called with a domain and bits (some tenths of a second, a few seconds for degrees above 127), and kept.

Where the degree is not the least one for the bits, a larger one costs no more. A domain not wider than 2 costs no level
for itself: the polynomial is fitted on one that contains it, and has the width 2 / k with an integer k. Any other takes
one level, which is part of the depth stated. Outside of the domain nothing is known of the result, and it may be wrong
in every slot; simulated values outside are warned of, with the line. The imaginary parts of complex slots have to be
no more than noise: polynomials mix them into the real parts.
"""

from fhejax.functions.activations import (
    gelu as gelu,
    relu as relu,
    sigmoid as sigmoid,
    silu as silu,
    tanh as tanh,
)
from fhejax.functions.comparison import (
    abs as abs,
    compare as compare,
    maximum as maximum,
    minimum as minimum,
    sign as sign,
    step as step,
)
from fhejax.functions.elementary import cos as cos, exp as exp, sin as sin
from fhejax.functions.inverse import reciprocal as reciprocal
from fhejax.functions.softmax import softmax as softmax
from fhejax.functions.sqrt_log import log as log, rsqrt as rsqrt, sqrt as sqrt
