cimport cython


cdef class Neighbour:
    cdef object id, put, try_recv, recv, nudge, kept


cdef class Rings:
    cdef object _put
    cdef dict _neighbours
    cdef list _order
    cdef bint _woken, _closed
    cdef Neighbour _waiting
    cdef long long _waits, _seen
    cdef double _deadline

    @cython.locals(neighbour=Neighbour, order=list, place=Py_ssize_t)
    cpdef exchange(self, outgoing, double deadline, deliver, awaited)
    @cython.locals(neighbour=Neighbour)
    cdef Neighbour _likeliest(self, awaited)
    cdef _wait(self, Neighbour neighbour, double deadline)
    cdef _nudge(self, Neighbour neighbour)
