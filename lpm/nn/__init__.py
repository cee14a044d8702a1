"""Networks, buffers and running statistics shared by the bonuses."""
