"""eagle-chat.

Terminal chat with a live view of speculative decoding. Importing this package imports no torch.
"""

from importlib.metadata import PackageNotFoundError, version

try:
    __version__ = version("eagle-chat")
except PackageNotFoundError:  # run from a source tree that was never installed
    __version__ = "0+source"
