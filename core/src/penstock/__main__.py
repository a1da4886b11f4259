"""`python -m penstock`: the program, where its script is not on the path."""

from penstock.cli.entry import run

if __name__ == "__main__":
    run()
