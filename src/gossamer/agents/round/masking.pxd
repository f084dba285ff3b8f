cimport cython

from gossamer.agents.round.messages cimport Outgoing


cdef class MaskedEdge:
    cdef public object mask, index, heard
    cdef public bytes digest, secret, said
    cdef public bint counts, inside, sure, refuses, answers, tells, level, rests


cdef class Masking:
    cdef public object me, scales, _draw, _stream, _live
    cdef public long long least, _hope
    cdef public dict edges
    cdef public bint opened, refusing, refresh, stale, fresh, _again

    @cython.locals(edge=MaskedEdge)
    cpdef tuple say(self, neighbor, bytes rows)
    @cython.locals(edge=MaskedEdge, theirs=bytes, flags=int, tells=bint)
    cpdef bint hear(self, neighbor, Outgoing message, bint rests=*) except -1
    @cython.locals(edge=MaskedEdge, rests=bint)
    cpdef bint begins(self, neighbor) except -1


@cython.locals(mask=bytes)
cpdef bint told_value(Outgoing message) except -1
cpdef bint well_formed(bytes mask) except -1
