"""How logs spell a flag beside 1 and 0, in lower case."""

TRUE = ("true", "t", "yes", "y")
FALSE = ("false", "f", "no", "n")
