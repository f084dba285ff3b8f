cimport cython


cdef class Neighbour:
    cdef object id, put, try_recv, recv, nudge, kept


cdef class Rings:
    cdef public object message, connected
    cdef dict _neighbours
    cdef list _order
    cdef bint _woken
    cdef Neighbour _waiting
    cdef long long _waits, _seen
    cdef double _deadline

    @cython.locals(neighbour=Neighbour, payload=bytes, look=bint)
    cpdef exchange(self, round, outgoing, double deadline, deliver, awaited=*)
    cpdef present(self)
    @cython.locals(neighbour=Neighbour, place=Py_ssize_t)
    cdef bint _look(self, deliver) except -1
    cdef bint _hand(self, Neighbour neighbour, bytes payload, deliver) except -1
    @cython.locals(neighbour=Neighbour)
    cdef Neighbour _likeliest(self, awaited)
    cdef _wait(self, Neighbour neighbour, double deadline)
    cdef _nudge(self, Neighbour neighbour)
