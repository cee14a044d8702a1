"""The bonuses. Importing this package registers them; `lpm.make` does so by itself."""

from lpm.bonuses import lpm as lpm
