cdef class Numbers:
    cdef readonly object rows, own, tells
    cdef double[:, ::1] _rows, _after
    cdef double[:, :, ::1] _tells
    cdef double[::1] _edge, _answer
    cdef const double[:, :, ::1] _tell, _slope, _step
    cdef const double[:, ::1] _estimate
    cdef const long long[::1] _columns
    cdef double[::1] _weights
    cdef const double[:, ::1] _most
    cdef bint _bounded
    cdef Py_ssize_t _own, _degree, _registers, _dimension, _size

    cpdef weigh(self, Py_ssize_t k, double weight)
    cpdef begin(self, Py_ssize_t t, const double[::1] observation, double weight)
    cpdef bytes told(self, Py_ssize_t k)
    cpdef adopt(self, Py_ssize_t k, bytes rows)
    cpdef move(self, Py_ssize_t k, Py_ssize_t t, bytes rows)
    cpdef finish(self, Py_ssize_t t)
    cpdef conclude(self, Py_ssize_t t)
    cdef const double* _read(self, bytes rows) except NULL


cdef class Features:
    cdef public object noise
    cdef readonly object row
    cdef double[::1] _row, _own
    cdef const double[::1] _bins
    cdef const double[:, ::1] _noise
    cdef bint _variance
    cdef Py_ssize_t _products, _skipped

    cpdef begin(self, const double[::1] mean)
    cpdef add(self, const double[::1] observation, double seen, Py_ssize_t line)


cpdef double square(bytes numbers)
cpdef Py_ssize_t beyond(bytes numbers, const double[::1] most)
