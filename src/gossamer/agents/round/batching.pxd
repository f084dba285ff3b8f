cimport cython

from gossamer.agents.round.numbers cimport Features


@cython.final
@cython.no_gc
cdef class Batch:
    cdef readonly object observation
    cdef readonly long samples
    cdef readonly double weight


cdef class Batcher:
    cdef public object layout
    cdef object _gain, _shift, _random, _nothing, _interpreted
    cdef bint _by_samples, _holds
    cdef Features _features
    cdef Py_ssize_t _lines
    cdef public bint ending

    cpdef bint takes(self)
    @cython.locals(features=Features, seen=double, count=Py_ssize_t, times=Py_ssize_t, weight=double)
    cpdef batch(self, new, mean, double samples, long long age)
