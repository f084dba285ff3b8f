cimport cython

from gossamer.agents.round.masking cimport Masking
from gossamer.agents.round.messages cimport Outgoing, standing_of
from gossamer.agents.round.numbers cimport Numbers


cdef class EdgeEnd:
    cdef public Py_ssize_t k
    cdef public bint free, echoed, up
    cdef public int standing
    cdef public long long since, begun, used, heard, calm


cdef class Ledger:
    cdef public object program, me
    cdef public Py_ssize_t dimension, edge_registers
    cdef public long long silence, serial, age, degree, durable, reset
    cdef public dict closings, parked
    cdef public Masking masks
    cdef object _kept, _constant, _held
    cdef public double samples
    cdef Py_ssize_t _rounds, _after_loss, _now
    cdef long long _born
    cdef dict _edges
    cdef Numbers _numbers
    cdef public double return_rate
    cdef bint _returns, _dropped
    cdef public object overgrowth
    cdef public object limits

    @cython.locals(edge=EdgeEnd, degree=cython.longlong)
    cdef _count(self)
    cpdef begin(self, observation, double samples=*, weight=*)
    @cython.locals(edge=EdgeEnd, echo=cython.longlong, rows=bytes, mask=bytes)
    cpdef tell(self, neighbor, holding=*)
    @cython.locals(
        message=Outgoing,
        edge=EdgeEnd,
        mine=int,
        theirs=int,
        alone=bint,
        begins=bint,
        dropped=bint,
        late=bint,
        missed=bint,
        moves=bint,
        degree=cython.longlong,
        unheard=cython.longlong,
        row=cython.longlong,
    )
    cpdef finish(self, heard)
    @cython.locals(edge=EdgeEnd, tell=bint)
    cdef bint _hear_mask(self, neighbor, Outgoing message) except -1
