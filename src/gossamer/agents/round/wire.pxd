cimport cython

from gossamer.agents.round.masking cimport well_formed
from gossamer.agents.round.messages cimport Outgoing, Received
from gossamer.agents.round.numbers cimport beyond, square


cdef bytes _little(bytes numbers)


cdef class Codec:
    cdef public object me, epoch, extremes
    cdef readonly tuple _shape
    cdef public frozenset neighbors
    cdef bytes _header
    cdef Py_ssize_t _bytes
    cdef readonly Py_ssize_t longest
    cdef public double single
    cdef long long _rounds_ahead
    cdef bint _bounded
    cdef const double[::1] _most, _most_single, _largest_mask
    cdef bint _masked
    cdef object _pack, _unpack

    @cython.locals(fields=tuple, masked=tuple, rows=bytes)
    cpdef encode(self, round, Outgoing content)
    @cython.locals(column=Py_ssize_t, mask=bytes, rows=bytes, single=bint)
    cpdef decode(self, sender, bytes payload, long long round)
