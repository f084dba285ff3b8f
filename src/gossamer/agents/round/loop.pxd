cimport cython

from gossamer.agents.round.batching cimport Batch, Batcher
from gossamer.agents.round.conversation cimport Conversation
from gossamer.agents.round.ledger cimport Ledger


cdef class RoundLoop:
    cdef readonly object pending
    cdef public object paced
    cdef readonly long long taken
    cdef public bint resting
    cdef Batcher _batcher
    cdef Ledger _ledger
    cdef Conversation _conversation
    cdef object _failed, _extremes

    @cython.locals(batch=Batch)
    cpdef play(self, double due)
    @cython.locals(batch=Batch)
    cpdef last(self)
    @cython.locals(new=list)
    cdef Batch _batch(self)
