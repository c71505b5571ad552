/* The inner loops of `block` and `columns`, for where a compiler exists. Python does the same without them;
 * docs/adr/0002-compiled-kernel.md says what they gain.
 *
 * fallen(placed, plan, attributes) -> rows, point     `placed` and the rows of bits a publication falls in, and its
 *                                         numbers; a step of the plan is (attribute, cuts, rows of numbers, fall, ...)
 *                                         and `fall` is called for a value that is no float
 * slots(rows, cells, point) -> bytes      positions (int64) of the slots that are in all rows and whose cells are at
 *                                         or below the point's
 * sids(rows, cells, point, sids) -> list         what is at these positions (int64)
 * groups(rows, cells, point, groups) -> list     groups (uint32) of these slots, each at least once; a group found
 *                                         is not looked at again
 * below(cells, stride, count, point) -> bytes     the same for columns: cell (column, row) at column * stride + row
 *
 * pieces(groups, labels) -> list          labels (uint32, packed) cut where the group (int64, sorted) changes, as
 *                                         (group, labels) pairs
 *
 * Rows are bit vectors of one length, a multiple of 64, little-endian; cells are doubles. Sizes are checked:
 * a call with wrong ones is a ValueError, never a read beyond a buffer.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdint.h>
#include <string.h>

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "bit vectors are read as little-endian words"
#endif

#define MAX_ROWS 80
#define MAX_POINT 160
#define FIRST_HITS 256
#define SEEN 1024
#define CHUNK 64 /* words that are ANDed before they are looked at */
#define AHEAD 12

typedef struct {
    Py_buffer rows[MAX_ROWS];
    Py_ssize_t row_count, words;
    Py_buffer cells, groups;
    double point[MAX_POINT];
    Py_ssize_t width;
} Question;

typedef struct {
    int64_t first[FIRST_HITS];
    int64_t *items, *seen;
    Py_ssize_t count, room;
} Hits;

static int wrong(const char *what) {
    PyErr_SetString(PyExc_ValueError, what);
    return -1;
}

static int read_point(PyObject *list, double *point, Py_ssize_t *width) {
    if (!PyList_Check(list) || PyList_GET_SIZE(list) > MAX_POINT) return wrong("point: no list, or too long");
    *width = PyList_GET_SIZE(list);
    for (Py_ssize_t i = 0; i < *width; i++) {
        point[i] = PyFloat_AsDouble(PyList_GET_ITEM(list, i));
        if (point[i] == -1.0 && PyErr_Occurred()) return -1;
    }
    return 0;
}

/* Into how many of these ascending floats a value does not fit below: bisect_right. -1 if one is no float. */
static Py_ssize_t bisect(PyObject *cuts, double value) {
    Py_ssize_t low = 0, high = PyList_GET_SIZE(cuts);
    while (low < high) {
        Py_ssize_t middle = (low + high) / 2;
        PyObject *cut = PyList_GET_ITEM(cuts, middle);
        if (!PyFloat_CheckExact(cut)) return wrong("plan: a cut is no float");
        if (value < PyFloat_AS_DOUBLE(cut)) high = middle;
        else low = middle + 1;
    }
    return low;
}

static int append(PyObject *list, PyObject *item) { /* takes the item over */
    int failed = !item || PyList_Append(list, item);
    Py_XDECREF(item);
    return failed ? -1 : 0;
}

static int fall_by_float(PyObject *step, double value, PyObject *rows, PyObject *point) {
    PyObject *cuts = PyTuple_GET_ITEM(step, 1), *numbers = PyTuple_GET_ITEM(step, 2);
    if (!PyList_Check(cuts) || !PyList_Check(numbers) || PyList_GET_SIZE(numbers) <= PyList_GET_SIZE(cuts))
        return wrong("plan: not a row more than cuts");
    Py_ssize_t row = bisect(cuts, value);
    if (row < 0 || PyList_Append(rows, PyList_GET_ITEM(numbers, row))) return -1;
    return append(point, PyFloat_FromDouble(value)) || append(point, PyFloat_FromDouble(-value)) ? -1 : 0;
}

static int fall_by_call(PyObject *step, PyObject *value, PyObject *rows, PyObject *point) {
    PyObject *fallen = PyObject_CallOneArg(PyTuple_GET_ITEM(step, 3), value);
    int failed = !fallen;
    if (fallen && !(PyTuple_Check(fallen) && PyTuple_GET_SIZE(fallen) == 3)) failed = wrong("plan: fall");
    if (!failed)
        failed = PyList_Append(rows, PyTuple_GET_ITEM(fallen, 0)) ||
                 PyList_Append(point, PyTuple_GET_ITEM(fallen, 1)) ||
                 PyList_Append(point, PyTuple_GET_ITEM(fallen, 2));
    Py_XDECREF(fallen);
    return failed ? -1 : 0;
}

static PyObject *look_up(PyObject *attributes, PyObject *name) {
    if (!PyDict_Check(attributes)) return PyObject_CallMethod(attributes, "get", "O", name);
    PyObject *value = PyDict_GetItemWithError(attributes, name);
    return PyErr_Occurred() ? NULL : Py_NewRef(value ? value : Py_None);
}

static int fall(PyObject *plan, PyObject *attributes, PyObject *rows, PyObject *point) {
    int failed = 0;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(plan) && !failed; i++) {
        PyObject *step = PyList_GET_ITEM(plan, i);
        if (!PyTuple_Check(step) || PyTuple_GET_SIZE(step) < 4) return wrong("plan: a step is no tuple of four");
        PyObject *value = look_up(attributes, PyTuple_GET_ITEM(step, 0));
        if (!value) return -1;
        failed = PyFloat_CheckExact(value) ? fall_by_float(step, PyFloat_AS_DOUBLE(value), rows, point)
                                           : fall_by_call(step, value, rows, point);
        Py_DECREF(value);
    }
    return failed;
}

static PyObject *fallen(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    if (count != 3 || !PyList_Check(args[1])) return wrong("plan: no list"), NULL;
    PyObject *rows = PyList_New(0), *point = PyList_New(0), *both = NULL;
    if (rows && point && !PyList_Append(rows, args[0]) && !fall(args[1], args[2], rows, point))
        both = PyTuple_Pack(2, rows, point);
    Py_XDECREF(rows);
    Py_XDECREF(point);
    return both;
}

static void release(Question *q) {
    for (Py_ssize_t i = 0; i < q->row_count; i++) PyBuffer_Release(&q->rows[i]);
    if (q->cells.obj) PyBuffer_Release(&q->cells);
}

static int read_question(Question *q, PyObject *rows, PyObject *cells, PyObject *point) {
    q->row_count = 0;
    q->cells.obj = NULL;
    if (!PyList_Check(rows) || !PyList_GET_SIZE(rows) || PyList_GET_SIZE(rows) > MAX_ROWS)
        return wrong("rows: no list, empty or too long");
    if (read_point(point, q->point, &q->width)) return -1;
    for (Py_ssize_t i = 0; i < PyList_GET_SIZE(rows); i++) {
        if (PyObject_GetBuffer(PyList_GET_ITEM(rows, i), &q->rows[i], PyBUF_SIMPLE)) return -1;
        q->row_count++;
        if (q->rows[i].len != q->rows[0].len || q->rows[i].len % 8) return wrong("rows: not of one length");
    }
    q->words = q->rows[0].len / 8;
    if (PyObject_GetBuffer(cells, &q->cells, PyBUF_C_CONTIGUOUS)) return -1;
    if (q->cells.len < q->words * 64 * q->width * (Py_ssize_t)sizeof(double)) return wrong("cells: too few");
    return 0;
}

static void start(Hits *hits) {
    hits->items = hits->first;
    hits->count = 0;
    hits->room = FIRST_HITS;
}

static void finish(Hits *hits) {
    if (hits->items != hits->first) PyMem_Free(hits->items);
}

static int more_room(Hits *hits) {
    int64_t *items = PyMem_Malloc(2 * hits->room * sizeof(int64_t));
    if (!items) {
        PyErr_NoMemory();
        return -1;
    }
    memcpy(items, hits->items, hits->count * sizeof(int64_t));
    finish(hits);
    hits->items = items;
    hits->room *= 2;
    return 0;
}

/* Called for each word that has candidates; `first` is the slot of its lowest bit. */
typedef void (*Visit)(const Question *q, uint64_t candidates, int64_t first, Hits *hits);

static int passes(const Question *q, int64_t slot) {
    const double *row = (const double *)q->cells.buf + slot * q->width;
    Py_ssize_t j = 0;
    while (j < q->width && row[j] <= q->point[j]) j++;
    return j == q->width;
}

static void each_slot(const Question *Py_UNUSED(q), uint64_t candidates, int64_t first, Hits *hits) {
    for (; candidates; candidates &= candidates - 1)
        hits->items[hits->count++] = first + __builtin_ctzll(candidates);
}

/* Cells lie far apart: those of later slots are on their way while one is compared. */
static void keep_passing(const Question *q, Hits *hits) {
    const double *cells = (const double *)q->cells.buf;
    Py_ssize_t kept = 0;
    for (Py_ssize_t i = 0; i < hits->count; i++) {
        if (i + AHEAD < hits->count) __builtin_prefetch(cells + hits->items[i + AHEAD] * q->width);
        if (passes(q, hits->items[i])) hits->items[kept++] = hits->items[i];
    }
    hits->count = kept;
}

/* A slot of a group that was found lately is not looked at; two groups in one place of `seen` only cost time. */
static void each_group(const Question *q, uint64_t candidates, int64_t first, Hits *hits) {
    for (; candidates; candidates &= candidates - 1) {
        int64_t slot = first + __builtin_ctzll(candidates);
        int64_t group = ((const uint32_t *)q->groups.buf)[slot];
        if (hits->seen[group % SEEN] != group + 1 && passes(q, slot)) {
            hits->seen[group % SEEN] = group + 1;
            hits->items[hits->count++] = group;
        }
    }
}

static int sift(const Question *q, Hits *hits, Visit visit) {
    uint64_t left[CHUNK];
    for (Py_ssize_t first = 0; first < q->words; first += CHUNK) {
        Py_ssize_t length = q->words - first < CHUNK ? q->words - first : CHUNK;
        memcpy(left, (const uint64_t *)q->rows[0].buf + first, length * sizeof(uint64_t));
        for (Py_ssize_t i = 1; i < q->row_count; i++) {
            const uint64_t *row = (const uint64_t *)q->rows[i].buf + first;
            for (Py_ssize_t w = 0; w < length; w++) left[w] &= row[w];
        }
        for (Py_ssize_t w = 0; w < length; w++) {
            if (hits->count + 64 > hits->room && more_room(hits)) return -1;
            if (left[w]) visit(q, left[w], (first + w) * 64, hits);
        }
    }
    return 0;
}

static PyObject *as_bytes(const Hits *hits) {
    return PyBytes_FromStringAndSize((const char *)hits->items, hits->count * sizeof(int64_t));
}

static int find_slots(Question *q, Hits *hits, PyObject *const *args) {
    start(hits);
    if (read_question(q, args[0], args[1], args[2]) || sift(q, hits, each_slot)) return -1;
    keep_passing(q, hits);
    return 0;
}

static PyObject *slots(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    Question q;
    Hits hits;
    PyObject *found = NULL;
    if (count != 3) return wrong("slots takes 3 arguments"), NULL;
    if (!find_slots(&q, &hits, args)) found = as_bytes(&hits);
    release(&q);
    finish(&hits);
    return found;
}

static PyObject *as_list(const Hits *hits) {
    PyObject *found = PyList_New(hits->count);
    for (Py_ssize_t i = 0; found && i < hits->count; i++) {
        PyObject *value = PyLong_FromLongLong(hits->items[i]);
        if (!value) Py_CLEAR(found);
        else PyList_SET_ITEM(found, i, value);
    }
    return found;
}

static PyObject *sids(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    Question q;
    Hits hits;
    Py_buffer names;
    PyObject *found = NULL;
    if (count != 4) return wrong("sids takes 4 arguments"), NULL;
    if (PyObject_GetBuffer(args[3], &names, PyBUF_C_CONTIGUOUS)) return NULL;
    if (!find_slots(&q, &hits, args)) {
        if (names.len < q.words * 64 * (Py_ssize_t)sizeof(int64_t)) wrong("sids: too few");
        else {
            for (Py_ssize_t i = 0; i < hits.count; i++) hits.items[i] = ((const int64_t *)names.buf)[hits.items[i]];
            found = as_list(&hits);
        }
    }
    release(&q);
    finish(&hits);
    PyBuffer_Release(&names);
    return found;
}

static PyObject *groups(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    Question q;
    Hits hits;
    int64_t seen[SEEN] = {0};
    PyObject *found = NULL;
    if (count != 4) return wrong("groups takes 4 arguments"), NULL;
    if (PyObject_GetBuffer(args[3], &q.groups, PyBUF_C_CONTIGUOUS)) return NULL;
    start(&hits);
    hits.seen = seen;
    if (!read_question(&q, args[0], args[1], args[2])) {
        if (q.groups.len < q.words * 64 * (Py_ssize_t)sizeof(uint32_t)) wrong("groups: too few");
        else if (!sift(&q, &hits, each_group)) found = as_list(&hits);
    }
    release(&q);
    finish(&hits);
    PyBuffer_Release(&q.groups);
    return found;
}

/* Two cells at once and a mask for each, as every processor can. A compiler that is not told does one by one. */
typedef double Two __attribute__((vector_size(16)));
typedef int64_t Masks __attribute__((vector_size(16)));

static void rise(int64_t *above, const double *cell, Py_ssize_t length, double bound) {
    Two cells, bounds = {bound, bound};
    Masks masks;
    Py_ssize_t i = 0;
    for (; i + 2 <= length; i += 2) {
        memcpy(&cells, cell + i, sizeof cells);
        memcpy(&masks, above + i, sizeof masks);
        masks |= cells > bounds;
        memcpy(above + i, &masks, sizeof masks);
    }
    for (; i < length; i++) above[i] |= cell[i] > bound;
}

static int compare(const double *cells, Py_ssize_t stride, Py_ssize_t rows, const double *point,
                   Py_ssize_t width, Hits *hits) {
    int64_t above[256];
    for (Py_ssize_t first = 0; first < rows; first += 256) {
        Py_ssize_t length = rows - first < 256 ? rows - first : 256;
        memset(above, 0, sizeof above);
        for (Py_ssize_t column = 0; column < width; column++)
            rise(above, cells + column * stride + first, length, point[column]);
        while (hits->count + 256 > hits->room)
            if (more_room(hits)) return -1;
        for (Py_ssize_t i = 0; i < length; i++) {
            hits->items[hits->count] = first + i;
            hits->count += !above[i];
        }
    }
    return 0;
}

static PyObject *below(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    double point[MAX_POINT];
    Py_ssize_t width;
    Py_buffer cells;
    Hits hits;
    PyObject *found = NULL;
    if (count != 4) return wrong("below takes 4 arguments"), NULL;
    Py_ssize_t stride = PyLong_AsSsize_t(args[1]), rows = PyLong_AsSsize_t(args[2]);
    if (PyErr_Occurred() || read_point(args[3], point, &width)) return NULL;
    if (PyObject_GetBuffer(args[0], &cells, PyBUF_C_CONTIGUOUS)) return NULL;
    start(&hits);
    if (rows < 0 || stride < rows || cells.len / (Py_ssize_t)sizeof(double) / (stride ? stride : 1) < width)
        wrong("cells: too few");
    else if (!compare(cells.buf, stride, rows, point, width, &hits)) found = as_bytes(&hits);
    finish(&hits);
    PyBuffer_Release(&cells);
    return found;
}

static PyObject *piece(int64_t group, const char *labels, Py_ssize_t count) {
    PyObject *number = PyLong_FromLongLong(group);
    PyObject *packed = PyBytes_FromStringAndSize(labels, count * (Py_ssize_t)sizeof(uint32_t));
    PyObject *pair = number && packed ? PyTuple_New(2) : NULL;
    if (!pair) {
        Py_XDECREF(number);
        Py_XDECREF(packed);
        return NULL;
    }
    PyTuple_SET_ITEM(pair, 0, number);
    PyTuple_SET_ITEM(pair, 1, packed);
    return pair;
}

static PyObject *cut(const int64_t *groups, const char *labels, Py_ssize_t count) {
    PyObject *found = PyList_New(0);
    Py_ssize_t start = 0;
    for (Py_ssize_t i = 1; found && i <= count; i++) {
        if (i < count && groups[i] == groups[start]) continue;
        PyObject *pair = piece(groups[start], labels + start * sizeof(uint32_t), i - start);
        if (!pair || PyList_Append(found, pair)) Py_CLEAR(found);
        Py_XDECREF(pair);
        start = i;
    }
    return found;
}

static PyObject *pieces(PyObject *Py_UNUSED(self), PyObject *const *args, Py_ssize_t count) {
    Py_buffer groups, labels;
    PyObject *found = NULL;
    if (count != 2) return wrong("pieces takes 2 arguments"), NULL;
    if (PyObject_GetBuffer(args[0], &groups, PyBUF_C_CONTIGUOUS)) return NULL;
    if (!PyObject_GetBuffer(args[1], &labels, PyBUF_C_CONTIGUOUS)) {
        Py_ssize_t length = groups.len / (Py_ssize_t)sizeof(int64_t);
        if (groups.itemsize != sizeof(int64_t) || labels.len != length * (Py_ssize_t)sizeof(uint32_t))
            wrong("groups and labels: not one of eight bytes for each of four");
        else
            found = cut(groups.buf, labels.buf, length);
        PyBuffer_Release(&labels);
    }
    PyBuffer_Release(&groups);
    return found;
}

static PyMethodDef methods[] = {
    {"fallen", (PyCFunction)(void *)fallen, METH_FASTCALL, NULL},
    {"slots", (PyCFunction)(void *)slots, METH_FASTCALL, NULL},
    {"sids", (PyCFunction)(void *)sids, METH_FASTCALL, NULL},
    {"groups", (PyCFunction)(void *)groups, METH_FASTCALL, NULL},
    {"below", (PyCFunction)(void *)below, METH_FASTCALL, NULL},
    {"pieces", (PyCFunction)(void *)pieces, METH_FASTCALL, NULL},
    {NULL, NULL, 0, NULL},
};

static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "_kernel", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit__kernel(void) {
    return PyModule_Create(&module);
}
