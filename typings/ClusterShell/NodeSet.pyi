from collections.abc import Iterable

class GroupResolver: ...

RESOLVER_NOGROUP: GroupResolver

class NodeSet:
    @classmethod
    def fromlist(cls, nodelist: Iterable[str], *, resolver: GroupResolver | None = None) -> NodeSet: ...
