"""The version of the package."""

from importlib.metadata import PackageNotFoundError, version

try:
    VERSION = version("selvedge-sdk")
except PackageNotFoundError:  # the sources, without an installation
    VERSION = "0"
