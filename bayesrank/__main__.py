"""``python -m bayesrank``."""

from bayesrank.cli import main

if __name__ == "__main__":
    main()
