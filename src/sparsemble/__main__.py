"""`python -m sparsemble`."""

from sparsemble.cli.main import main

if __name__ == "__main__":
    main()
