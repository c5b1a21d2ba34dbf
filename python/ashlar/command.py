# SPDX-License-Identifier: Apache-2.0
"""The command `ashlar` of a wheel: starts the program that lies in the package."""

import os
import sys
from pathlib import Path


def program() -> Path:
    """Where it lies; only a wheel with the command has it."""
    return Path(__file__).parent / "bin" / "ashlar"


def main() -> None:
    """Becomes the program, with the same arguments and streams."""
    path = program()
    if not path.is_file():
        sys.exit(f"ashlar: the program is not in this package ({path}); expected a wheel made by tools/make-wheel. "
                 "Built from source, it is build/release/bin/ashlar")
    os.execv(path, [str(path), *sys.argv[1:]])


if __name__ == "__main__":
    main()
