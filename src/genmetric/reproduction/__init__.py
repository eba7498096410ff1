"""Reproduction of the paper: its protocol, a store of scores, and tables next to its values."""
