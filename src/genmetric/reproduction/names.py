"""Names of the paper's tables; a light module, for the help of the command line."""

TABLES = ("small", "large", "nonlinear", "density", "clustering", "timing", "isomap")
