cdef class Outgoing:
    cdef readonly long long serial, echo
    cdef readonly bint settled
    cdef readonly bytes told


cdef class Received(Outgoing):
    cdef readonly object sender
    cdef readonly long long round
