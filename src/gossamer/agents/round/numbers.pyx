# cython: language_level=3, boundscheck=False, wraparound=False, initializedcheck=False
"""The numbers of an agent and the sums of a round, in C; see `numbers.py`, which is the same in NumPy."""

import numpy as np

cdef extern from "math.h":
    double sqrt(double x)

COMPILED = True


cdef int check(Py_ssize_t got, Py_ssize_t needed) except -1:
    """C would read beyond the end where NumPy raises, so this raises."""
    if got != needed:
        raise ValueError(f"a length of {needed} is needed, got {got}")
    return 0


cdef class Numbers:
    def __init__(self, tell, slope, step, estimate, columns, weights, dimension, *, most=None):
        own, registers = tell.shape[1] - 1, step.shape[1]
        self.rows = np.zeros((len(columns), dimension))
        self.own = self.rows[:own]
        self.tells = self.rows[own + 1 :].reshape(len(weights), 1 + registers, dimension)
        self._own, self._degree, self._registers, self._dimension = own, len(weights), registers, dimension
        self._rows, self._tells = self.rows, self.tells
        self._size = (1 + registers) * dimension * sizeof(double)
        self._tell, self._slope = np.ascontiguousarray(tell), np.ascontiguousarray(slope)
        self._step, self._estimate = np.ascontiguousarray(step), np.ascontiguousarray(estimate)
        self._columns, self._weights = columns, np.array(weights)
        self._after = np.zeros((1 + own, dimension))
        self._edge, self._answer = np.zeros(registers), np.zeros(dimension)
        self._bounded = most is not None
        if self._bounded:
            check(most.shape[0], len(weights))
            check(most.shape[1], dimension)
            self._most = most

    cpdef weigh(self, Py_ssize_t k, double weight):
        self._weights[k] = weight

    cpdef begin(self, Py_ssize_t t, const double[::1] observation, double weight):
        cdef Py_ssize_t row, k, c, column
        cdef double factor
        check(observation.shape[0], self._dimension)
        for c in range(self._dimension):
            self._rows[self._own, c] = observation[c]
        for row in range(1 + self._own):
            for c in range(self._dimension):
                self._after[row, c] = 0.0
            for k in range(self._rows.shape[0]):
                column = self._columns[k]
                factor = self._tell[t, row, column] + weight * self._slope[t, row, column]
                if factor != 0.0:
                    for c in range(self._dimension):
                        self._after[row, c] += factor * self._rows[k, c]
        for k in range(self._degree):
            for c in range(self._dimension):
                self._tells[k, 0, c] = self._after[0, c]

    cpdef bytes told(self, Py_ssize_t k):
        return (<const char*>&self._tells[k, 0, 0])[: self._size]

    cpdef adopt(self, Py_ssize_t k, bytes rows):
        cdef const double* theirs = self._read(rows)
        cdef double* mine = &self._tells[k, 0, 0]
        cdef Py_ssize_t i, row, c
        cdef double most
        for i in range(self._dimension, (1 + self._registers) * self._dimension):
            mine[i] = -theirs[i]
        if self._bounded:
            for row in range(1, 1 + self._registers):
                for c in range(self._dimension):
                    most = self._most[k, c]
                    self._tells[k, row, c] = min(max(self._tells[k, row, c], -most), most)

    cpdef move(self, Py_ssize_t k, Py_ssize_t t, bytes rows):
        cdef const double* said = self._read(rows)
        cdef Py_ssize_t row, column, c
        cdef double difference, most
        for c in range(self._dimension):
            difference = self._after[0, c] - said[c]
            for row in range(self._registers):
                self._edge[row] = self._step[t, row, 0] * self._weights[k] * difference
                for column in range(self._registers):
                    self._edge[row] += self._step[t, row, 1 + column] * self._tells[k, 1 + column, c]
            for row in range(self._registers):
                self._tells[k, 1 + row, c] = self._edge[row]
                if self._bounded:
                    most = self._most[k, c]
                    self._tells[k, 1 + row, c] = min(max(self._edge[row], -most), most)

    cdef const double* _read(self, bytes rows) except NULL:
        check(len(rows), self._size)
        return <const double*><const char*>rows

    cpdef finish(self, Py_ssize_t t):
        cdef Py_ssize_t row, c
        for row in range(self._own):
            for c in range(self._dimension):
                self._rows[row, c] = self._after[1 + row, c]
        self.conclude(t)

    cpdef conclude(self, Py_ssize_t t):
        cdef Py_ssize_t k, c
        cdef double factor
        for c in range(self._dimension):
            self._answer[c] = 0.0
        for k in range(self._rows.shape[0]):
            factor = self._estimate[t, self._columns[k]]
            if factor != 0.0:
                for c in range(self._dimension):
                    self._answer[c] += factor * self._rows[k, c]

    @property
    def answer(self):
        copy = np.empty(self._dimension)
        cdef double[::1] out = copy
        cdef Py_ssize_t c
        for c in range(self._dimension):
            out[c] = self._answer[c]
        return copy


cdef class Features:
    def __init__(self, dimension, bins, variance, noise, pairs=False, skipped=0):
        self.noise = noise
        self._products = dimension * (dimension - 1) // 2 if pairs else 0
        self.row = np.zeros(1 + dimension * (1 + variance + len(bins) + noise.shape[1]) + self._products + skipped)
        self._row, self._noise = self.row, noise
        self._bins = np.array(bins, dtype=float)
        self._own = np.zeros(dimension)
        self._variance = variance
        self._skipped = skipped

    cpdef begin(self, const double[::1] mean):
        cdef Py_ssize_t k, c
        check(min(mean.shape[0], 1 + self._own.shape[0]), 1 + self._own.shape[0])
        for k in range(self._row.shape[0]):
            self._row[k] = 0.0
        for c in range(self._own.shape[0]):
            self._own[c] = mean[1 + c] if mean[0] == 0.0 else mean[1 + c] / mean[0]

    cpdef add(self, const double[::1] observation, double seen, Py_ssize_t line):
        cdef Py_ssize_t n = self._own.shape[0], c, k, column, product = 1 + n * (1 + self._variance + self._bins.shape[0])
        cdef double value, surprise, scale = sqrt((seen - 1.0) / seen)
        check(observation.shape[0], n)
        self._row[0] += 1.0
        for c in range(n):
            value = observation[c]
            surprise = value - self._own[c]
            column = 1 + c
            self._row[column] += value
            if self._variance:
                column += n
                self._row[column] += value * value
            for k in range(self._bins.shape[0]):
                column += n
                self._row[column] += value <= self._bins[k]
            if self._products:
                for k in range(c + 1, n):
                    self._row[product] += value * observation[k]
                    product += 1
            column += self._products + self._skipped
            for k in range(self._noise.shape[1]):
                column += n
                self._row[column] += self._noise[line, k] * (surprise * scale)
            self._own[c] += surprise / seen


cpdef double square(bytes numbers):
    cdef const double* found = <const double*><const char*>numbers
    cdef Py_ssize_t i
    cdef double total = 0.0
    for i in range(len(numbers) // <Py_ssize_t>sizeof(double)):
        total += found[i] * found[i]
    return total


cpdef Py_ssize_t beyond(bytes numbers, const double[::1] most):
    cdef const double* found = <const double*><const char*>numbers
    cdef Py_ssize_t i
    check(len(numbers), most.shape[0] * <Py_ssize_t>sizeof(double))
    for i in range(most.shape[0]):
        if not -most[i] <= found[i] <= most[i]:
            return i
    return -1
