from typing import Any

def __getattr__(name: str) -> Any: ...  # its names may change
