cimport cython

from gossamer.agents.round.masking cimport told_value
from gossamer.agents.round.messages cimport Outgoing, Received, standing_of
from gossamer.agents.round.wire cimport Codec


cdef class Peer:
    cdef public object id
    cdef public Received current, ahead, last
    cdef public bytes agreed
    cdef public long long newest, misses, silent, used, lost, late, lies, epoch
    cdef public double quiet, came_at, heard_at, reminded_at, timeout, garbage, garbage_at, roster_at
    cdef public Py_hash_t roster_hash
    cdef public bint dead, answered, quarantined, foreign, stopped


cdef class Conversation:
    cdef public object core, transport, rejected, roster_came, names
    cdef public dict peers
    cdef public long long round, sent, received
    cdef tuple _all
    cdef long long _born, _serial, _stride, _reset
    cdef dict _closings
    cdef public frozenset barred
    cdef double _timeout, _death, _was, _slot
    cdef object _clock, _quiet, _single
    cdef bytes _roster
    cdef Codec _codec
    cdef set _missing
    cdef bint _stopped, _uneven, _in_step, _behind, _far

    @cython.locals(peer=Peer, started=double, message=Outgoing)
    cpdef step(self, observation, double samples=*, weight=*, double until=*)
    cdef _sort(self, Peer peer)
    cdef long long _held(self, Peer peer) except -1
    cdef _lose(self, Peer peer)
    cdef _hear(self, dict outgoing, bint alone, double started, double until)
    @cython.locals(peer=Peer, patience=double)
    cdef double _patience(self, bint alone)
    cdef _present(self)
    @cython.locals(peer=Peer)
    cdef _take(self, sender, bytes payload)
    cdef _suspect(self, Peer peer, reason)
    cdef _accept(self, Peer peer, Received message)
    @cython.locals(peer=Peer, now=double, elapsed=double, late=bint)
    cdef _finish(self)
