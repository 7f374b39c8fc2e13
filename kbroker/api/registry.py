"""NOTICE to the author of kbroker/api/registry.py: your uncommitted version (09:22:42) was lost; please write it again.

The helper "protocol" overwrote it by mistake at 09:23:18. No copy was found. Nothing else of yours was changed, and
"protocol" now stays out of kbroker/api. Its own draft is at h-protocol/api/registry.py below the temporary folder.
"""

raise ImportError(
    "kbroker/api/registry.py was overwritten by mistake by the helper 'protocol': write it again (see its docstring)"
)
