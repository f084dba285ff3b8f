cimport cython

from gossamer.agents.wire cimport Codec

cdef class Peer:
    cdef public object id, current, ahead, told
    cdef public long long newest, misses, silent, used, lost, late
    cdef public double quiet, came_at, heard_at, round_trip
    cdef public bint dead


cdef class Rounds:
    cdef public object core, transport, rejected
    cdef public dict peers
    cdef public long long round, sent, received
    cdef tuple _all
    cdef double _timeout, _death, _was, _slot
    cdef object _clock
    cdef Codec _codec
    cdef dict _sent_at
    cdef set _missing
    cdef bint _stopped, _uneven, _in_step, _behind

    @cython.locals(peer=Peer, started=double)
    cpdef step(self, observation, double samples=*, weight=*, double until=*)
    cpdef _sort(self, Peer peer)
    cpdef _lose(self, Peer peer)
    cpdef _hear(self, dict outgoing, double started, double until)
    cpdef double _patience(self, bint alone)
    @cython.locals(peer=Peer)
    cpdef _take(self, sender, bytes payload)
    @cython.locals(peer=Peer, now=double, elapsed=double)
    cpdef _finish(self)
