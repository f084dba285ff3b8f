cimport cython

from gossamer.agents._numbers cimport Features


cdef class Feed:
    cdef public object layout
    cdef object _gain, _random, _nothing
    cdef bint _by_samples
    cdef Features _features
    cdef Py_ssize_t _lines

    @cython.locals(features=Features, seen=double)
    cpdef batch(self, new, mean, double samples, long long age)
