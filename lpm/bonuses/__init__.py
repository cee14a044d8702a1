"""The bonuses. Importing this package registers them; `lpm.make` does so by itself."""

from lpm.bonuses import ama as ama
from lpm.bonuses import bayes_gain as bayes_gain
from lpm.bonuses import byol_hindsight as byol_hindsight
from lpm.bonuses import count as count
from lpm.bonuses import curiosity_critic as curiosity_critic
from lpm.bonuses import deir as deir
from lpm.bonuses import e3b as e3b
from lpm.bonuses import eme as eme
from lpm.bonuses import ensemble as ensemble
from lpm.bonuses import etd as etd
from lpm.bonuses import forward_error as forward_error
from lpm.bonuses import gamma_progress as gamma_progress
from lpm.bonuses import icm as icm
from lpm.bonuses import lbs as lbs
from lpm.bonuses import lgn as lgn
from lpm.bonuses import lpm as lpm
from lpm.bonuses import lpm_anchored as lpm_anchored
from lpm.bonuses import lpm_release as lpm_release
from lpm.bonuses import lpm_slow as lpm_slow
from lpm.bonuses import ngu as ngu
from lpm.bonuses import none as none
from lpm.bonuses import noveld as noveld
from lpm.bonuses import pointwise as pointwise
from lpm.bonuses import re3 as re3
from lpm.bonuses import ride as ride
from lpm.bonuses import rnd as rnd
