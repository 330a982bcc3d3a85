import sys

from pasta.eval.extraction.run import main

if __name__ == "__main__":
    sys.exit(main())
