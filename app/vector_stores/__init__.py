"""OpenAI's vector stores over Foreword's collections: bodies in, objects out. Pure."""
