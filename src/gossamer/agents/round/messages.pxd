cimport cython


# They hold no containers, so the garbage collector need not look for cycles.
@cython.no_gc
cdef class Outgoing:
    cdef readonly long long serial, echo, degree
    cdef public long long closing
    cdef readonly bint settled
    cdef readonly bytes rows
    cdef public bytes mask


@cython.no_gc
@cython.final
cdef class Received(Outgoing):
    cdef readonly object sender
    cdef readonly long long round, epoch
    cdef public bytes extremes


cpdef int standing_of(Outgoing message)
