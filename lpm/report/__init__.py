"""Figures, tables and pages made from results."""
