"""`python -m sparsemble`."""

from sparsemble.cli.app import main

if __name__ == "__main__":
    main()
