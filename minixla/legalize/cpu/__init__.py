"""Faults of XLA:CPU (jaxlib 0.10.2) and the replacements, by topic."""

from minixla.legalize.cpu import bits as bits
from minixla.legalize.cpu import booleans as booleans
from minixla.legalize.cpu import conversions as conversions
from minixla.legalize.cpu import convolutions as convolutions
from minixla.legalize.cpu import division as division
from minixla.legalize.cpu import floats as floats
from minixla.legalize.cpu import indices as indices
from minixla.legalize.cpu import joined_constants as joined_constants
from minixla.legalize.cpu import literals as literals
from minixla.legalize.cpu import loops as loops
from minixla.legalize.cpu import narrow_integers as narrow_integers
from minixla.legalize.cpu import powers as powers
from minixla.legalize.cpu import scatters as scatters
from minixla.legalize.cpu import squares as squares
from minixla.legalize.cpu import windows as windows
