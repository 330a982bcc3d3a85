"""The server: OpenAI's API over one engine, whose steps all requests share."""
