"""Bootstrapping: ciphertexts refreshed without decrypting them."""

from fhejax.bootstrapping.batch import bootstrap_many as bootstrap_many
from fhejax.bootstrapping.bootstrapping import Bootstrapping as Bootstrapping, BootstrappingKeys as BootstrappingKeys
from fhejax.bootstrapping.profile import profile as profile
from fhejax.bootstrapping.refresh import bootstrap as bootstrap, refresh as refresh
