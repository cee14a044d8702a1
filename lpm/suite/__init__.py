"""The suite: one score card for any bonus, from runs in five worlds under families of noise."""
