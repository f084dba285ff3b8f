cimport cython


# They hold no containers, so there is no cycle to look for.
@cython.no_gc
cdef class Outgoing:
    cdef readonly long long serial, echo
    cdef readonly bint settled
    cdef readonly bytes told


@cython.no_gc
@cython.final
cdef class Received(Outgoing):
    cdef readonly object sender
    cdef readonly long long round
