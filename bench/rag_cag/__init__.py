"""RAG, CAG and `auto`, measured through a gateway: `python -m bench.rag_cag`."""
