cimport cython

from gossamer.agents.round.messages cimport Outgoing, Received
from gossamer.agents.round.wire cimport Codec


cdef class Peer:
    cdef public object id
    cdef public Received current, ahead, last
    cdef public bytes agreed
    cdef public long long newest, misses, silent, used, lost, late, lies, epoch
    cdef public double quiet, came_at, heard_at, round_trip, reminded_at
    cdef public bint dead, answered, quarantined


cdef class Conversation:
    cdef public object core, transport, rejected, roster_came
    cdef public dict peers
    cdef public long long round, sent, received
    cdef tuple _all
    cdef long long _born, _serial, _stride
    cdef frozenset _barred
    cdef double _timeout, _death, _was, _slot
    cdef object _clock
    cdef bytes _roster
    cdef Codec _codec
    cdef dict _sent_at
    cdef set _missing
    cdef bint _stopped, _uneven, _in_step, _behind, _far

    @cython.locals(peer=Peer, started=double, told=Outgoing)
    cpdef step(self, observation, double samples=*, weight=*, double until=*)
    cdef _sort(self, Peer peer)
    cdef _lose(self, Peer peer)
    cdef _hear(self, dict outgoing, double started, double until)
    @cython.locals(peer=Peer, waits=bint, least=cython.longlong)
    cdef double _patience(self, bint alone)
    cdef _present(self)
    @cython.locals(peer=Peer)
    cdef _take(self, sender, bytes payload)
    cdef _suspect(self, Peer peer, reason)
    @cython.locals(now=double)
    cdef _accept(self, Peer peer, Received message)
    @cython.locals(peer=Peer, now=double, elapsed=double)
    cdef _finish(self)
