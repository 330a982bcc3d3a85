"""`python -m pasta.eval`: the same as `pasta eval`, where only torch, transformers and numpy are installed."""

from pasta.eval.run import main

if __name__ == "__main__":
    raise SystemExit(main())
