import sys, types
try: import av
except ImportError:
    class Stub(types.ModuleType):
        __path__=[]
        def __getattr__(self,n):
            if n.startswith("__"): raise AttributeError(n)
            return type(n,(Exception,),{})
    for m in ("av","av.container","av.stream","av.video","av.video.frame","av.video.stream","av.error","av.video.reformatter","av.packet","av.filter","av.audio","av.codec"): sys.modules[m]=Stub(m)
