"""Protocols: which metric helps, and the tables of the paper computed anew."""
