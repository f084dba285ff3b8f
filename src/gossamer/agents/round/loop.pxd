cimport cython

from gossamer.agents.round.batching cimport Batch, Feed
from gossamer.agents.round.ledger cimport Ledger
from gossamer.agents.round.conversation cimport Rounds


cdef class Turn:
    cdef readonly object pending
    cdef public object paced
    cdef readonly long long taken
    cdef Feed _feed
    cdef Ledger _ledger
    cdef Rounds _rounds
    cdef object _failed, _mean

    @cython.locals(batch=Batch)
    cpdef play(self, double due)
    @cython.locals(batch=Batch)
    cpdef last(self)
    @cython.locals(new=list)
    cdef Batch _batch(self)
