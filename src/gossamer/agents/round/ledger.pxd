cimport cython

from gossamer.agents.round.numbers cimport Numbers
from gossamer.agents.round.messages cimport Outgoing


cdef class Ledger:
    cdef public object program, me
    cdef public Py_ssize_t dimension, edge_registers
    cdef public long long silence, serial, age, degree, durable, reset
    cdef public dict closings, parked
    cdef object _kept
    cdef public double samples
    cdef Py_ssize_t _rounds, _now
    cdef long long _born
    cdef dict _place
    cdef Numbers _numbers
    cdef list _used, _standing, _since, _begun, _echoed, _up, _free
    cdef public double return_rate
    cdef bint _returns
    cdef object _most

    cpdef begin(self, observation, double samples=*, weight=*)
    @cython.locals(k=Py_ssize_t, standing=int, echo=cython.longlong)
    cpdef tell(self, neighbor, holding=*)
    @cython.locals(
        message=Outgoing,
        k=Py_ssize_t,
        mine=int,
        theirs=int,
        alone=bint,
        begins=bint,
        dropped=bint,
        unheard=cython.longlong,
    )
    cpdef finish(self, heard)


cpdef int standing_of(Outgoing message)
