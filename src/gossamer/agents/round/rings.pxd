cimport cython


cdef class Link:
    cdef object id, put, try_recv, recv, nudge


cdef class Rings:
    cdef public object message, connected
    cdef dict _neighbors
    cdef list _order
    cdef bint _woken
    cdef Link _waiting
    cdef long long _waits, _seen
    cdef double _deadline

    @cython.locals(neighbor=Link, payload=bytes, look=bint)
    cpdef exchange(self, round, outgoing, double deadline, deliver, awaited=*)
    cpdef present(self)
    @cython.locals(neighbor=Link, place=Py_ssize_t)
    cdef bint _look(self, deliver) except -1
    cdef bint _hand(self, Link neighbor, bytes payload, deliver) except -1
    @cython.locals(neighbor=Link)
    cdef Link _likeliest(self, awaited)
    cdef _wait(self, Link neighbor, double deadline)
    cdef _nudge(self, Link neighbor)
