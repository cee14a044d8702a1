"""Files written whole or not at all and read within bounds, locks, and states as safetensors and JSON."""
