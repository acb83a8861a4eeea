"""Import finders: what SGLang imports without using it on the way to a CPU engine."""
