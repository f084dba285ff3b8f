cimport cython

from gossamer.agents.round.numbers cimport Numbers
from gossamer.agents.round.messages cimport Outgoing


cdef class Ledger:
    cdef public object program, me
    cdef public Py_ssize_t dimension, edge_registers
    cdef public long long silence, serial, age, degree
    cdef public double samples
    cdef Py_ssize_t _rounds, _now
    cdef long long _born
    cdef dict _place
    cdef Numbers _numbers
    cdef list _used, _settled, _echoed, _up, _free

    cpdef begin(self, observation, double samples=*, weight=*)
    @cython.locals(k=Py_ssize_t)
    cpdef tell(self, neighbor, holding=*)
    @cython.locals(message=Outgoing, k=Py_ssize_t, mine=bint, theirs=bint, alone=bint, unheard=cython.longlong)
    cpdef finish(self, heard)
