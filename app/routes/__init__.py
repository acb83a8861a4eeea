"""HTTP routes: thin, they validate, call one function, return."""
