"""Takes av's place where nothing is decoded: simulating, rendering to arrays, training."""
import sys, types
class _Stub(types.ModuleType):
    __path__ = []
    def __getattr__(self, name):
        if name.startswith("__"):
            raise AttributeError(name)
        return type(name, (Exception,), {})
for _m in ("container", "stream", "video", "video.frame", "video.stream", "error", "video.reformatter", "packet", "filter", "audio", "codec"):
    sys.modules["av." + _m] = _Stub("av." + _m)
sys.modules["av"].__class__ = _Stub
