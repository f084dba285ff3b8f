cimport cython


cdef class Inbox:
    cdef object id, put, waiting, _bell

    cpdef arrive(self, sample)


cpdef ring(bell)


cdef class Inboxes:
    cdef public object message, connected
    cdef dict _inboxes
    cdef list _order
    cdef bint _woken
    cdef object _bell

    @cython.locals(inbox=Inbox, remaining=double)
    cpdef exchange(self, round, outgoing, double deadline, deliver, awaited=*)
    cpdef present(self)
    @cython.locals(inbox=Inbox)
    cdef bint _look(self, deliver) except -1
